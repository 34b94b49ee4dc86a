package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// indent is how many spaces the lines of a mapping or a list are indented more than its key.
const indent = 2

// marks are words that stand in a document while it is YAML, in the places where the template has text
// that is not YAML. The slice has each mark and, after it, the text.
type marks []string

const markPrefix = "__GOLESS_"

func (m *marks) next() string { return fmt.Sprintf("%s%d__", markPrefix, len(*m)) }

// replace puts the texts in the places of the marks.
func (m *marks) replace(text string) string { return strings.NewReplacer(*m...).Replace(text) }

// set puts a mark for a value, by its name, in the place of a node at some depth.
func (m *marks) set(node *yaml.Node, prefix, name string, depth int) error {
	if strings.Contains(node.Value, markPrefix) {
		return fmt.Errorf("two values are at the same place: %s is one of them", name)
	}
	text := fmt.Sprintf("{{ .Values.%s | quote }}", name)
	switch value := without(node, prefix); {
	case strings.HasPrefix(name, "images."): // the helper pulls it from the mirror, if there is one
		text = fmt.Sprintf(`{{ include "goless.image" (list . .Values.%s) | quote }}`, name)
	case value.Kind != yaml.ScalarNode:
		text = fmt.Sprintf("{{- toYaml .Values.%s | nindent %d }}", name, depth*indent)
	case value.Tag == "!!int": // otherwise Helm writes large numbers as floating point ones
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

// line returns a line with a mark for text that is not part of a node.
func (m *marks) line(text string) string {
	mark := m.next() + "\n"
	*m = append(*m, mark, text)
	return mark
}

// insert puts a mark for lines of text at the end of a mapping, a list or a text at some depth. It
// returns the fields that the mapping had before.
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
		node.Style &^= yaml.FlowStyle // [a, b] has no lines of its own
		node.Content = append(node.Content, item)
		line += "- " + mark + "\n"
	default:
		node.Value += mark + "\n"
		line += mark + "\n"
	}
	*m = append(*m, line, text)
	return fields
}
