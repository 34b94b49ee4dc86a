package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// namespace is where deploy/ installs Goless. In the chart the release says where.
const namespace = "goless-system"

// fenceParameter is the name of an annotation that a policy of the fence reads of its binding.
var fenceParameter = regexp.MustCompile(`fence\.goless\.io/[a-z]+(-[a-z]+)*`)

// template makes a template of the text of a file, and notes in the table what it has found there.
func (t *table) template(text string) (string, error) {
	for _, name := range fenceParameter.FindAllString(text, -1) {
		t.parameters[name] = true
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(indent)
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var all marks
	for {
		var document yaml.Node
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return "", err
		}
		name, err := nameOf(document.Content[0])
		before, after := t.condition(name, &all)
		out.WriteString(before)
		if err := errors.Join(err, t.mark(document.Content[0], name, &all), encoder.Encode(&document)); err != nil {
			return "", err
		}
		out.WriteString(after)
	}
	err := encoder.Close()
	return all.replace(escape(out.String())), err
}

// condition returns what stands before and after a document that is not always in the chart.
func (t *table) condition(name string, all *marks) (before, after string) {
	for i := range t.Documents {
		if d := &t.Documents[i]; d.Name == name {
			d.found = true
			before = all.line(fmt.Sprintf("{{- if %s }}\n", d.If))
			after = all.line("{{- end }}\n")
		}
	}
	return before, after
}

// escape returns text so that a template writes it as it is, but for the namespace.
func escape(text string) string {
	text = strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
	return strings.ReplaceAll(text, namespace, "{{ .Release.Namespace }}")
}

// mark puts marks into a document where the template differs from it.
func (t *table) mark(document *yaml.Node, name string, all *marks) error {
	var errs []error
	for i := range t.Values {
		v := &t.Values[i]
		for j := range v.Sets {
			errs = append(errs, v.set(&v.Sets[j], document, name, all))
		}
		for j := range v.Inserts {
			errs = append(errs, v.Inserts[j].insert(document, name, all))
		}
	}
	return errors.Join(errs...)
}

// set marks a place of the value, if that is in the document of a name.
func (v *value) set(s *place, document *yaml.Node, name string, all *marks) error {
	node, prefix := find(document, s.Path)
	if node == nil || s.Document != name {
		return nil
	}
	s.found = true
	return errors.Join(v.takeDefault(without(node, prefix)), all.set(node, prefix, v.Name, len(s.Path)))
}

// insert marks where the text goes, if the document of a name has that place.
func (in *insert) insert(document *yaml.Node, name string, all *marks) error {
	matches, err := path.Match(in.Document, name)
	if err != nil {
		return fmt.Errorf("chart.yaml: %s: %w", in.Document, err)
	}
	if node, _ := find(document, in.Into); node != nil && matches {
		in.found = true
		in.given = all.insert(node, in.Text, len(in.Into))
	}
	return nil
}

// takeDefault makes what is at one place of a value its default. It is an error if the value has
// another default already.
func (v *value) takeDefault(is *yaml.Node) error {
	if v.Default.IsZero() {
		v.Default = *is
		return nil
	}
	want, err := yaml.Marshal(&v.Default)
	got, err2 := yaml.Marshal(is)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if !bytes.Equal(want, got) {
		return fmt.Errorf("%s is %s at one place and %s at another", v.Name, want, got)
	}
	return nil
}

// nameOf returns the kind and the name of an object.
func nameOf(document *yaml.Node) (string, error) {
	var object struct {
		Kind     string `yaml:"kind"`
		Metadata struct {
			Name string `yaml:"name"`
		} `yaml:"metadata"`
	}
	err := document.Decode(&object)
	return object.Kind + "/" + object.Metadata.Name, err
}
