package manifest

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
	"goless.io/builder/internal/schema"
	"goless.io/builder/internal/yamlnode"
)

// readYAML returns the Functions in the documents of data. If others is not nil, readYAML appends
// the other objects of goless.io to *others.
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
	return handler.NewError(file, 1+bytes.Count(before, []byte("\n")), 0, "the file is not UTF-8 (possibly Latin-1 or Windows-1252); save it as UTF-8")
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
	case yamlnode.Field(root, "kind").Value == "List":
		return yamlnode.Field(root, "items").Content
	}
	return []*yaml.Node{root}
}

// isFunction reports whether an object is meant to be a Function, even if its kind or version is
// misspelled. Only FunctionClasses have the same version.
func isFunction(object *yaml.Node) bool {
	kind, apiVersion := yamlnode.Field(object, "kind").Value, yamlnode.Field(object, "apiVersion").Value
	if apiVersion == schema.FunctionVersion() {
		return kind != "" && kind != "FunctionClass"
	}
	return strings.HasPrefix(apiVersion, "goless.io/") && strings.EqualFold(kind, schema.FunctionKind)
}

func readFunction(file string, lines []string, object *yaml.Node) (*Function, error) {
	metadata := yamlnode.Field(object, "metadata")
	name := yamlnode.Field(metadata, "name")
	spec := yamlnode.Field(object, "spec")
	source := yamlnode.Field(spec, "function")
	if err := schema.CheckRepeated(file, object); err != nil {
		return nil, err
	}
	if kind := yamlnode.Field(object, "kind"); kind.Value != schema.FunctionKind {
		return nil, handler.NewError(file, kind.Line, kind.Column, fmt.Sprintf("unknown kind %s, goless.io/v1beta1 has %s and FunctionClass", kind.Value, schema.FunctionKind))
	}
	if name.Value == "" || source.Kind != yaml.ScalarNode {
		err := (&Function{file: file, object: object}).CheckFields()
		return nil, cmp.Or[error](err, handler.NewError(file, object.Line, object.Column, "spec.function must be text"))
	}
	return &Function{
		Name:      name.Value,
		Namespace: yamlnode.Text(yamlnode.Field(metadata, "namespace")),
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
		return handler.NewError(f.file, at.Line, at.Column, fmt.Sprintf("duplicate Function %s, the first is in line %d; remove or rename one", f.Name, first.Line))
	}
	return nil
}

// sameAs returns the node of the Function's name, and that of the first of others with the same
// name and namespace, which it would overwrite. It returns nil if there is none.
func (f *Function) sameAs(others []*Function) (at, first *yaml.Node) {
	for _, other := range others {
		if other.Name == f.Name && other.Namespace == f.Namespace {
			return yamlnode.Field(yamlnode.Field(f.object, "metadata"), "name"), yamlnode.Field(yamlnode.Field(other.object, "metadata"), "name")
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
	return handler.NewError(file, max(line, 1), 0, message)
}

func isMapping(data []byte) bool {
	var document yaml.Node
	err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&document)
	return err == nil && document.Content[0].Kind == yaml.MappingNode
}

func describe(object *yaml.Node) string {
	return cmp.Or(yamlnode.Field(object, "kind").Value, "the document")
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
	port, _ := strconv.Atoi(yamlnode.Field(spec, "serverPort").Value) // 0 if it is not a number, which the API server rejects
	s := Serving{
		Port:        port,
		Timeout:     yamlnode.Text(yamlnode.Field(spec, "timeout")),
		Concurrency: yamlnode.Text(yamlnode.Field(spec, "concurrency")),
	}
	for _, variable := range yamlnode.Field(spec, "env").Content {
		name := yamlnode.Field(variable, "name").Value
		if from := yamlnode.Field(variable, "valueFrom"); from.Kind == 0 {
			s.Env = append(s.Env, name+"="+yamlnode.Text(yamlnode.Field(variable, "value")))
		} else {
			s.Elsewhere = append(s.Elsewhere, name)
		}
	}
	for _, source := range yamlnode.Field(spec, "envFrom").Content {
		for _, kind := range []string{"secretRef", "configMapRef"} {
			if name := yamlnode.Field(yamlnode.Field(source, kind), "name").Value; name != "" {
				s.Elsewhere = append(s.Elsewhere, "all of "+name)
			}
		}
	}
	return s
}
