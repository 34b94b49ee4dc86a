package main

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// find returns the node at a path, or nil. A step of a path is one of:
//
//   - the key of a mapping
//   - name=x, the item of a list whose field name is x
//   - --flag=, the item of a list with that prefix; a value replaces only the text after the prefix
func find(node *yaml.Node, path []string) (found *yaml.Node, prefix string) {
	for _, step := range path {
		if node, prefix = follow(node, step); node == nil {
			return nil, ""
		}
	}
	return node, prefix
}

// follow returns the node at one step of a path.
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

// field returns the value of a key of a mapping, or nil.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// trimPrefix returns a scalar node without a prefix, as an integer if possible.
func trimPrefix(node *yaml.Node, prefix string) *yaml.Node {
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
