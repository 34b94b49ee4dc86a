package input

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/handler"
)

// readYAML returns the Functions in the documents of data. Unless others is nil, it adds the other
// objects of goless.io to it.
func readYAML(file string, data []byte, others *[]*Object) (functions []*Function, notes []string, err error) {
	lines := strings.Split(string(data), "\n")
	if err := checkUTF8(file, data); err != nil {
		return nil, nil, err
	}
	for decoder := yaml.NewDecoder(bytes.NewReader(withoutSurrogates(data))); ; {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return functions, notes, nil
		} else if err != nil {
			return nil, notes, syntaxError(file, err)
		}
		for _, object := range objects(document.Content[0]) {
			switch {
			case isFunction(object):
				if functions, err = addFunction(functions, file, data, lines, object); err != nil {
					return nil, notes, err
				}
			case others != nil && isOther(object):
				*others = append(*others, readOther(file, object))
			default:
				notes = append(notes, fmt.Sprintf("%s:%d: %s is not a Function of goless.io; skipped", file, object.Line, describe(object)))
			}
		}
	}
}

// addFunction appends the Function in an object of a file. It fails for a duplicate.
func addFunction(functions []*Function, file string, data []byte, lines []string, object *yaml.Node) ([]*Function, error) {
	function, err := readFunction(file, lines, object)
	if err == nil {
		err = function.checkSame(functions)
	}
	if err != nil {
		return nil, err
	}
	function.text = data
	return append(functions, function), nil
}

// checkUTF8 returns an error with the first line that is not UTF-8.
func checkUTF8(file string, data []byte) error {
	if utf8.Valid(data) {
		return nil
	}
	before := data[:bytes.IndexFunc(data, func(r rune) bool { return r == utf8.RuneError })]
	return authorError(file, 1+bytes.Count(before, []byte("\n")), 0, "the file is not UTF-8 (possibly Latin-1 or Windows-1252); save it as UTF-8")
}

// surrogates matches a surrogate pair, with which JSON encodes one character, half of a pair, or
// any other escape.
var surrogates = regexp.MustCompile(`\\u([dD][89abAB][[:xdigit:]]{2})\\u([dD][c-fC-F][[:xdigit:]]{2})|\\u[dD][89a-fA-F][[:xdigit:]]{2}|\\.`)

// withoutSurrogates replaces surrogate pairs in JSON, such as for emoji, with escapes of YAML,
// because the YAML parser rejects surrogates. Half of a pair becomes U+FFFD, as in the API server.
// It returns data that is not JSON unchanged.
func withoutSurrogates(data []byte) []byte {
	if !json.Valid(data) {
		return data
	}
	return surrogates.ReplaceAllFunc(data, func(escape []byte) []byte {
		pair := surrogates.FindSubmatch(escape)
		switch {
		case len(pair[1]) > 0:
			high, _ := strconv.ParseUint(string(pair[1]), 16, 16) // four hexadecimal digits
			low, _ := strconv.ParseUint(string(pair[2]), 16, 16)
			return fmt.Appendf(nil, `\U%08x`, utf16.DecodeRune(rune(high), rune(low)))
		case escape[1] == 'u' && len(escape) > 2:
			return []byte(`\ufffd`)
		}
		return escape
	})
}

// objects returns the items of a List, or the object itself if it is not a List. It returns nil for
// an empty document, which tools write after the last separator.
func objects(root *yaml.Node) []*yaml.Node {
	switch {
	case root.Tag == "!!null":
		return nil
	case field(root, "kind").Value == "List":
		return field(root, "items").Content
	}
	return []*yaml.Node{root}
}

const functionKind = "Function"

// isFunction reports whether an object is meant to be a Function, even if its kind or version is
// misspelled. Only FunctionClasses have the same version.
func isFunction(object *yaml.Node) bool {
	kind, apiVersion := field(object, "kind").Value, field(object, "apiVersion").Value
	if _, version := functionSchema(); apiVersion == version {
		return kind != "" && kind != "FunctionClass"
	}
	return strings.HasPrefix(apiVersion, "goless.io/") && strings.EqualFold(kind, functionKind)
}

func readFunction(file string, lines []string, object *yaml.Node) (*Function, error) {
	metadata := field(object, "metadata")
	name := field(metadata, "name")
	spec := field(object, "spec")
	source := field(spec, "function")
	if err := checkRepeated(file, object); err != nil {
		return nil, err
	}
	if kind := field(object, "kind"); kind.Value != functionKind {
		return nil, authorError(file, kind.Line, kind.Column, fmt.Sprintf("unknown kind %s, goless.io/v1beta1 has %s and FunctionClass", kind.Value, functionKind))
	}
	if name.Value == "" || source.Kind != yaml.ScalarNode {
		err := (&Function{file: file, object: object}).CheckFields()
		return nil, cmp.Or(err, authorError(file, object.Line, object.Column, "spec.function must be text"))
	}
	return &Function{
		Name:      name.Value,
		Namespace: text(field(metadata, "namespace")),
		Source:    []byte(source.Value),
		Serving:   readServing(spec),
		files:     handler.Split(handler.Filename, []byte(source.Value)),
		file:      file,
		object:    object,
		block:     &block{scalar: source, lines: lines, source: strings.Split(source.Value, "\n")},
	}, nil
}

// checkSame returns an error if one of others has the name and namespace of the Function.
func (f *Function) checkSame(others []*Function) error {
	if at, first := f.sameAs(others); first != nil {
		return authorError(f.file, at.Line, at.Column, fmt.Sprintf("duplicate Function %s, the first is in line %d; remove or rename one", f.Name, first.Line))
	}
	return nil
}

// sameAs returns the node of the Function's name, and that of the first of others with the same
// name and namespace, which it would overwrite. It returns nil if there is none.
func (f *Function) sameAs(others []*Function) (at, first *yaml.Node) {
	for _, other := range others {
		if other.Name == f.Name && other.Namespace == f.Namespace {
			return field(field(f.object, "metadata"), "name"), field(field(other.object, "metadata"), "name")
		}
	}
	return nil, nil
}

// yamlMessage matches the messages of the YAML parser, with a line number if they have one.
var yamlMessage = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`)

// syntaxError returns the diagnostic for an error of the YAML parser. The parser may count lines
// from 0, or report the line where an unterminated element began.
func syntaxError(file string, err error) error {
	line, message := 1, err.Error()
	if match := yamlMessage.FindStringSubmatch(message); match != nil {
		line, _ = strconv.Atoi(match[1]) // digits or empty
		message = match[2]
	}
	return authorError(file, max(line, 1), 0, message)
}

func isMapping(data []byte) bool {
	var document yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&document)
	return err == nil && document.Content[0].Kind == yaml.MappingNode
}

func describe(object *yaml.Node) string { return cmp.Or(field(object, "kind").Value, "the document") }

func authorError(file string, line, column int, message string) error {
	return &handler.Error{Diagnostics: []handler.Diagnostic{handler.NewDiagnostic(file, line, column, message)}}
}

// field returns a value of a mapping, or an empty node. It follows aliases. It ignores merge keys,
// because an anchor is not valid in the next document of a file.
func field(mapping *yaml.Node, name string) *yaml.Node {
	mapping = resolved(mapping)
	if mapping.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(mapping.Content); i += 2 {
			if mapping.Content[i].Value == name {
				return resolved(mapping.Content[i+1])
			}
		}
	}
	return &yaml.Node{}
}

// text returns the value of a scalar, or "" if it is null.
func text(node *yaml.Node) string {
	if node.Tag == "!!null" {
		return ""
	}
	return node.Value
}

// resolved returns the target of an alias, and other nodes unchanged.
func resolved(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// checkRepeated returns an error if a mapping in an object contains a key twice.
func checkRepeated(file string, object *yaml.Node) error {
	if key, first := repeated(object); key != nil {
		return authorError(file, key.Line, key.Column, fmt.Sprintf("duplicate %s, the first is in line %d; remove one", key.Value, first))
	}
	return nil
}

// repeated returns the first key that a mapping contains twice, which the API server rejects, and
// the line of its first occurrence. It returns nil if there is none.
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

// Serving contains the fields in the YAML of a Function that configure how it is served. Fields
// that are not set are zero.
type Serving struct {
	// Port is spec.serverPort.
	Port int

	// Env are the variables of spec.env with a plain value, as name=value. $(NAME) in a value
	// refers to a preceding variable.
	Env []string

	// Elsewhere are the names of the variables whose values come from Secrets, ConfigMaps or the
	// pod.
	Elsewhere []string

	// Timeout is spec.timeout, such as "30s". Concurrency is spec.concurrency.
	Timeout, Concurrency string
}

func readServing(spec *yaml.Node) Serving {
	port, _ := strconv.Atoi(field(spec, "serverPort").Value) // 0 if it is not a number, which the API server rejects
	s := Serving{
		Port:        port,
		Timeout:     text(field(spec, "timeout")),
		Concurrency: text(field(spec, "concurrency")),
	}
	for _, variable := range field(spec, "env").Content {
		name := field(variable, "name").Value
		if from := field(variable, "valueFrom"); from.Kind == 0 {
			s.Env = append(s.Env, name+"="+text(field(variable, "value")))
		} else {
			s.Elsewhere = append(s.Elsewhere, name)
		}
	}
	for _, source := range field(spec, "envFrom").Content {
		for _, kind := range []string{"secretRef", "configMapRef"} {
			if name := field(field(source, kind), "name").Value; name != "" {
				s.Elsewhere = append(s.Elsewhere, "all of "+name)
			}
		}
	}
	return s
}
