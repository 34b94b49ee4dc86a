package input

import "go.yaml.in/yaml/v3"

// maxMerges bounds how many merge keys are followed: they can lead back to
// themselves.
const maxMerges = 100

// field returns the value of a mapping, or an empty node. Aliases and merge keys
// are followed, as the tools that apply YAML do.
func field(mapping *yaml.Node, name string) *yaml.Node {
	merges := maxMerges
	if value := lookup(mapping, name, &merges); value != nil {
		return value
	}
	return &yaml.Node{}
}

// lookup returns nil when the mapping has no such key. Its own keys come before
// those of the mappings that it merges, and these in their order.
func lookup(mapping *yaml.Node, name string, merges *int) *yaml.Node {
	mapping = resolved(mapping)
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	var merged []*yaml.Node
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], resolved(mapping.Content[i+1])
		switch {
		case key.Value == name:
			return value
		case key.Tag == "!!merge" && value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		case key.Tag == "!!merge":
			merged = append(merged, value)
		}
	}
	for _, each := range merged {
		if *merges--; *merges < 0 {
			return nil
		}
		if value := lookup(each, name, merges); value != nil {
			return value
		}
	}
	return nil
}

// resolved returns what an alias stands for, and any other node as it is.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// repeated returns the first key that a mapping has twice, which the API server rejects,
// and the line where it is the first time; or nil if there is none.
func repeated(node *yaml.Node) (key *yaml.Node, first int) {
	lines := map[string]int{}
	for i, child := range node.Content {
		if node.Kind == yaml.MappingNode && i%2 == 0 {
			if line, ok := lines[child.Value]; ok {
				return child, line
			}
			lines[child.Value] = child.Line
		}
		if key, first := repeated(child); key != nil {
			return key, first
		}
	}
	return nil, 0
}
