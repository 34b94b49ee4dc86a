package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A table is the content of deploy/chart/chart.yaml. Fields without a tag record what was found in
// the manifests.
type table struct {
	Files     []part  `yaml:"files"`
	Documents []part  `yaml:"documents"`
	Values    []value `yaml:"values"`

	// parameters contains the names of all annotations fence.goless.io/*.
	parameters map[string]bool
}

// A part is a file of deploy/, or a document identified by kind and name. If is the condition under
// which it is in the chart, in the syntax of Helm's if. A file without a condition is always in
// the chart.
type part struct {
	Name string `yaml:"name"`
	If   string `yaml:"if"`

	found bool
}

// A value is a value of the chart. It replaces all nodes in Sets. They must be equal, and are the
// default unless Default is set.
type value struct {
	Name    string    `yaml:"name"`
	About   string    `yaml:"about"`
	Default yaml.Node `yaml:"default"`
	Sets    []place   `yaml:"sets"`
	Inserts []insert  `yaml:"inserts"`
}

// A place is a node of a document. A document is identified by kind and name; see find for paths.
type place struct {
	Document string   `yaml:"document"`
	Path     []string `yaml:"path"`

	found bool
}

// An insert appends template text to a mapping, a list or a text, in all documents whose kind and
// name match a path.Match pattern.
type insert struct {
	Document string   `yaml:"document"`
	Into     []string `yaml:"into"`
	Text     string   `yaml:"text"`

	found bool
	// given contains the fields that the mapping already has.
	given []string
}

// readTable reads a table. Unknown fields are errors.
func readTable(path string) (*table, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t := &table{parameters: map[string]bool{}}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(t); err != nil {
		return nil, fmt.Errorf("chart.yaml: %w", err)
	}
	return t, nil
}

// check returns an error for each entry of the table that is incomplete or was not found in a file.
func (t *table) check() error {
	var err error
	for _, v := range t.Values {
		err = errors.Join(err, v.check())
	}
	for _, d := range t.Documents {
		if !d.found {
			err = errors.Join(err, fmt.Errorf("chart.yaml: there is no %s", d.Name))
		}
	}
	return err
}

// setImages replaces defaults that are ko import paths by images. It requires either an image for
// each import path or no images at all, because a chart with both could not be installed.
func (t *table) setImages(images map[string]string) error {
	if len(images) == 0 {
		return nil
	}
	var errs []error
	unused := maps.Clone(images)
	for i := range t.Values {
		v := &t.Values[i]
		if built := v.Default.Value; strings.HasPrefix(built, "ko://") {
			if v.Default.Value = images[built]; v.Default.Value == "" {
				errs = append(errs, fmt.Errorf("%s is %s, for which there is no -image", v.Name, built))
			}
			delete(unused, built)
		}
	}
	for built := range unused {
		errs = append(errs, fmt.Errorf("-image %s: nothing in the chart is that image", strings.TrimPrefix(built, "ko://")))
	}
	return errors.Join(errs...)
}

// check returns an error if a value is incomplete or one of its places was not found.
func (v *value) check() error {
	var errs []error
	if v.About == "" {
		errs = append(errs, fmt.Errorf("chart.yaml: %s has no about", v.Name))
	}
	if v.Default.IsZero() {
		errs = append(errs, fmt.Errorf("chart.yaml: %s has no default, and no document of a file that is listed has %v", v.Name, v.Sets))
	}
	for _, s := range v.Sets {
		if !s.found {
			errs = append(errs, fmt.Errorf("chart.yaml: %s: there is no %s with %s", v.Name, s.Document, strings.Join(s.Path, ", ")))
		}
	}
	for _, in := range v.Inserts {
		if !in.found {
			errs = append(errs, fmt.Errorf("chart.yaml: %s: there is no %s with %s", v.Name, in.Document, strings.Join(in.Into, ", ")))
		}
	}
	return errors.Join(errs...)
}
