// Package yamlnode reads values of YAML nodes.
package yamlnode

import "go.yaml.in/yaml/v3"

// Field returns a value of a mapping, or an empty node. It follows aliases. It ignores merge keys
// (<<): an anchor is valid only within its document, and a document usually contains a single
// Function, which has nothing to merge.
func Field(mapping *yaml.Node, name string) *yaml.Node {
	mapping = Resolved(mapping)
	if mapping.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if mapping.Content[i].Value == name {
				return Resolved(mapping.Content[i+1])
			}
		}
	}
	return &yaml.Node{}
}

// Text returns the value of a scalar, or "" if it is null.
func Text(node *yaml.Node) string {
	if node.Tag == "!!null" {
		return ""
	}
	return node.Value
}

// Resolved returns the target of an alias, and other nodes unchanged.
func Resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// At returns the field at a path, or an empty node.
func At(object *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		object = Field(object, name)
	}
	return object
}
