package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/handler"
)

// readYAML returns the Functions among the documents of data.
func readYAML(file string, data []byte) (functions []*Function, notes []string, err error) {
	lines := strings.Split(string(data), "\n")
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return functions, notes, nil
		} else if err != nil {
			return nil, notes, syntaxError(file, err)
		}
		for _, object := range objects(document.Content[0]) {
			kind := field(object, "kind")
			if !strings.HasPrefix(field(object, "apiVersion").Value, "goless.io/") || kind.Value != "Function" {
				notes = append(notes, fmt.Sprintf("%s:%d: %s is not a Function of goless.io, left out", file, object.Line, describe(kind)))
				continue
			}
			function, err := readFunction(file, lines, object)
			if err != nil {
				return nil, notes, err
			}
			function.text = data
			functions = append(functions, function)
		}
	}
}

// objects returns the items of a List, and any other object as it is.
func objects(root *yaml.Node) []*yaml.Node {
	if field(root, "kind").Value == "List" {
		return field(root, "items").Content
	}
	return []*yaml.Node{root}
}

func readFunction(file string, lines []string, object *yaml.Node) (*Function, error) {
	name := field(field(object, "metadata"), "name")
	source := field(field(object, "spec"), "function")
	switch {
	case name.Value == "":
		return nil, authorError(file, object.Line, object.Column, "metadata.name is missing")
	case source.Kind != yaml.ScalarNode:
		return nil, authorError(file, object.Line, object.Column, fmt.Sprintf("spec.function of %s is missing", name.Value))
	}
	return &Function{
		Name:    name.Value,
		Source:  []byte(source.Value),
		Serving: readServing(field(object, "spec")),
		files:   handler.Split(handler.Filename, []byte(source.Value)),
		file:    file,
		block:   &block{scalar: source, lines: lines, source: strings.Split(source.Value, "\n")},
	}, nil
}

// field returns the value of a mapping, or an empty node.
func field(mapping *yaml.Node, name string) *yaml.Node {
	if mapping.Kind == yaml.AliasNode {
		mapping = mapping.Alias
	}
	for i := 0; mapping.Kind == yaml.MappingNode && i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i+1]
		}
	}
	return &yaml.Node{}
}

func isMapping(data []byte) bool {
	var document yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&document)
	return err == nil && document.Content[0].Kind == yaml.MappingNode
}

func describe(kind *yaml.Node) string {
	if kind.Value == "" {
		return "the document"
	}
	return kind.Value
}

// yamlMessage matches the one form in which the parser tells a place.
var yamlMessage = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)`)

func syntaxError(file string, err error) error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	if match := yamlMessage.FindStringSubmatch(message); match != nil {
		line, _ := strconv.Atoi(match[1]) // digits
		return authorError(file, line, 0, match[2])
	}
	return authorError(file, 1, 0, message)
}

func authorError(file string, line, column int, message string) error {
	return &handler.Error{Diagnostics: []handler.Diagnostic{handler.NewDiagnostic(file, line, column, message)}}
}
