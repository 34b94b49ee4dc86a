package main

import (
	"bytes"
	"strings"

	"go.yaml.in/yaml/v3"
)

// values returns values.yaml with the defaults and descriptions of all values.
func (t *table) values() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for i := range t.Values {
		v := &t.Values[i]
		parent, keys := root, strings.Split(v.Name, ".")
		for _, key := range keys[:len(keys)-1] {
			parent = child(parent, key)
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: keys[len(keys)-1], HeadComment: "# " + v.About}
		parent.Content = append(parent.Content, key, &v.Default)
	}
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(indent)
	err := encoder.Encode(root)
	return b.Bytes(), err
}

// child returns the mapping for a key and creates it if necessary.
func child(parent *yaml.Node, key string) *yaml.Node {
	if node := field(parent, key); node != nil {
		return node
	}
	node := &yaml.Node{Kind: yaml.MappingNode}
	parent.Content = append(parent.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, node)
	return node
}
