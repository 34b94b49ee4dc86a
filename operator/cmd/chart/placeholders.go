package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// indent is the number of spaces for each level of indentation.
const indent = 2

// placeholders maps placeholders in a YAML document to text of a template that is not YAML. The
// slice alternates placeholders and texts.
type placeholders []string

const placeholderPrefix = "__GOLESS_"

func (m *placeholders) next() string { return fmt.Sprintf("%s%d__", placeholderPrefix, len(*m)) }

// replace replaces all placeholders by their texts.
func (m *placeholders) replace(text string) string { return strings.NewReplacer(*m...).Replace(text) }

// set replaces a node at the given depth by a placeholder for a value.
func (m *placeholders) set(node *yaml.Node, prefix, name string, depth int) error {
	if strings.Contains(node.Value, placeholderPrefix) {
		return fmt.Errorf("two values are at the same place: %s is one of them", name)
	}
	text := fmt.Sprintf("{{ .Values.%s | quote }}", name)
	switch value := trimPrefix(node, prefix); {
	case strings.HasPrefix(name, "images."): // the helper applies the registry mirror
		text = fmt.Sprintf(`{{ include "goless.image" (list . .Values.%s) | quote }}`, name)
	case value.Kind != yaml.ScalarNode:
		text = fmt.Sprintf("{{- toYaml .Values.%s | nindent %d }}", name, depth*indent)
	case value.Tag == "!!int": // otherwise Helm formats large numbers as floats
		text = fmt.Sprintf("{{ int64 .Values.%s }}", name)
	case prefix != "": // a part of a string
		text = fmt.Sprintf("{{ .Values.%s }}", name)
	}
	placeholder := m.next()
	*node = yaml.Node{
		Kind: yaml.ScalarNode, Tag: "!!str", Value: prefix + placeholder,
		HeadComment: node.HeadComment, LineComment: node.LineComment, FootComment: node.FootComment,
	}
	*m = append(*m, placeholder, text)
	return nil
}

// addLine returns a line with a placeholder for text that is not part of a node.
func (m *placeholders) addLine(text string) string {
	placeholder := m.next() + "\n"
	*m = append(*m, placeholder, text)
	return placeholder
}

// insert appends a placeholder for lines of text to a mapping, a list or a text at the given depth.
// It returns the fields that the mapping already has.
func (m *placeholders) insert(node *yaml.Node, text string, depth int) (fields []string) {
	placeholder, line := m.next(), strings.Repeat(" ", depth*indent)
	item := &yaml.Node{Kind: yaml.ScalarNode, Value: placeholder}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i < len(node.Content); i += 2 {
			fields = append(fields, node.Content[i].Value)
		}
		node.Content = append(node.Content, item, &yaml.Node{Kind: yaml.ScalarNode, Value: "null"})
		line += placeholder + ": null\n"
	case yaml.SequenceNode:
		node.Style &^= yaml.FlowStyle // [a, b] is on one line
		node.Content = append(node.Content, item)
		line += "- " + placeholder + "\n"
	default:
		node.Value += placeholder + "\n"
		line += placeholder + "\n"
	}
	*m = append(*m, line, text)
	return fields
}
