package main

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// find follows a path, and returns nil where that leads nowhere. A step is the key of a
// mapping; name=x is the item of a list whose field name is x; --flag= is the item of a list
// that begins so, of which prefix is not a part of the value.
func find(node *yaml.Node, path []string) (found *yaml.Node, prefix string) {
	for _, step := range path {
		if node, prefix = follow(node, step); node == nil {
			return nil, ""
		}
	}
	return node, prefix
}

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

// field is the value of a key of a mapping; nil where there is none.
func field(mapping *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// without is the value of a node without a prefix.
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

// indent is by how much the lines of a mapping or a list are indented more than its key.
const indent = 2

// marks stand in the YAML where a template has text of its own: each mark, and the text
// after it.
type marks []string

const markPrefix = "__GOLESS_"

func (m *marks) next() string { return fmt.Sprintf("%s%d__", markPrefix, len(*m)) }

func (m *marks) replacer() *strings.Replacer { return strings.NewReplacer(*m...) }

// set puts a mark for the value of a name in the place of a node at some depth.
func (m *marks) set(node *yaml.Node, prefix, name string, depth int) error {
	if strings.Contains(node.Value, markPrefix) {
		return fmt.Errorf("two values are at the same place: %s is one of them", name)
	}
	text := fmt.Sprintf("{{ .Values.%s | quote }}", name)
	switch value := without(node, prefix); {
	case strings.HasPrefix(name, "images."): // which a mirror may have
		text = fmt.Sprintf(`{{ include "goless.image" (list . .Values.%s) | quote }}`, name)
	case value.Kind != yaml.ScalarNode:
		text = fmt.Sprintf("{{- toYaml .Values.%s | nindent %d }}", name, depth*indent)
	case value.Tag == "!!int": // Helm reads numbers as floating point ones
		text = fmt.Sprintf("{{ int64 .Values.%s }}", name)
	}
	mark := m.next()
	*node = yaml.Node{
		Kind: yaml.ScalarNode, Tag: "!!str", Value: prefix + mark,
		HeadComment: node.HeadComment, LineComment: node.LineComment, FootComment: node.FootComment,
	}
	*m = append(*m, mark, text)
	return nil
}

// line is a mark for text that is no part of a node.
func (m *marks) line(text string) string {
	mark := m.next() + "\n"
	*m = append(*m, mark, text)
	return mark
}

// insert puts a mark for lines of text at the end of a mapping, a list or a text at some depth. It
// returns the fields of the mapping.
func (m *marks) insert(node *yaml.Node, text string, depth int) (fields []string) {
	mark, line := m.next(), strings.Repeat(" ", depth*indent)
	item := &yaml.Node{Kind: yaml.ScalarNode, Value: mark}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			fields = append(fields, node.Content[i].Value)
		}
		node.Content = append(node.Content, item, &yaml.Node{Kind: yaml.ScalarNode, Value: "null"})
		line += mark + ": null\n"
	case yaml.SequenceNode:
		node.Style &^= yaml.FlowStyle // [a, b] has no line to insert
		node.Content = append(node.Content, item)
		line += "- " + mark + "\n"
	default:
		node.Value += mark + "\n"
		line += mark + "\n"
	}
	*m = append(*m, line, text)
	return fields
}
