package main

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// find returns the node that a path leads to, and nil if there is none. A step of a path is the key of a
// mapping; or name=x, for the item of a list whose field name is x; or --flag=, for the item of a list
// that begins so. What is set of such an item is only what comes after that prefix.
func find(node *yaml.Node, path []string) (found *yaml.Node, prefix string) {
	for _, step := range path {
		if node, prefix = follow(node, step); node == nil {
			return nil, ""
		}
	}
	return node, prefix
}

// follow takes one step of a path.
func follow(node *yaml.Node, step string) (found *yaml.Node, prefix string) {
	if node.Kind == yaml.MappingNode {
		return field(node, step), ""
	}
	key, want, _ := strings.Cut(step, "=")
	for _, item := range node.Content {
		switch {
		case item.Kind == yaml.ScalarNode && strings.HasPrefix(item.Value, step):
			return item, step
		case item.Kind == yaml.MappingNode:
			if value := field(item, key); value != nil && value.Value == want {
				return item, ""
			}
		}
	}
	return nil, ""
}

// field returns the value of a key of a mapping, and nil if there is none.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// without returns a node without a prefix, as a number if the rest is one.
func without(node *yaml.Node, prefix string) *yaml.Node {
	if prefix == "" {
		return node
	}
	rest := strings.TrimPrefix(node.Value, prefix)
	tag := "!!str"
	if _, err := strconv.Atoi(rest); err == nil {
		tag = "!!int"
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: rest}
}
