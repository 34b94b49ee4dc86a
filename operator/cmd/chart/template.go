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

// namespace is the namespace in deploy/. In the chart it is the namespace of the release.
const namespace = "goless-system"

// policyParameter matches the name of an annotation of a policy binding that is a parameter of an
// access policy.
var policyParameter = regexp.MustCompile(`fence\.goless\.io/[a-z]+(-[a-z]+)*`)

// template converts the text of a manifest to a template. It records in the table which entries it
// has found.
func (t *table) template(text string) (string, error) {
	for _, name := range policyParameter.FindAllString(text, -1) {
		t.parameters[name] = true
	}
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(indent)
	decoder := yaml.NewDecoder(strings.NewReader(text))
	var all placeholders
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
		if err := errors.Join(err, t.insertPlaceholders(document.Content[0], name, &all), encoder.Encode(&document)); err != nil {
			return "", err
		}
		out.WriteString(after)
	}
	err := encoder.Close()
	return all.replace(escape(out.String())), err
}

// condition returns the text before and after a document that is in the chart under a condition.
func (t *table) condition(name string, all *placeholders) (before, after string) {
	for i := range t.Documents {
		if d := &t.Documents[i]; d.Name == name {
			d.found = true
			before = all.addLine(fmt.Sprintf("{{- if %s }}\n", d.If))
			after = all.addLine("{{- end }}\n")
		}
	}
	return before, after
}

// escape escapes template syntax and replaces the namespace.
func escape(text string) string {
	text = strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
	return strings.ReplaceAll(text, namespace, "{{ .Release.Namespace }}")
}

// insertPlaceholders inserts placeholders into a document where the template differs from it.
func (t *table) insertPlaceholders(document *yaml.Node, name string, all *placeholders) error {
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

// set inserts a placeholder at a place of the value, if it is in the given document.
func (v *value) set(s *place, document *yaml.Node, name string, all *placeholders) error {
	node, prefix := find(document, s.Path)
	if node == nil || s.Document != name {
		return nil
	}
	s.found = true
	return errors.Join(v.setDefault(trimPrefix(node, prefix)), all.set(node, prefix, v.Name, len(s.Path)))
}

// insert inserts a placeholder for the text, if it applies to the given document.
func (in *insert) insert(document *yaml.Node, name string, all *placeholders) error {
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

// setDefault sets the default of the value to a node. It returns an error if the value has a
// different default.
func (v *value) setDefault(is *yaml.Node) error {
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

// nameOf returns the kind and name of an object.
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
