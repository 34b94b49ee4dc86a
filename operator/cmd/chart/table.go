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

// A table is deploy/chart/chart.yaml, which says what is in the chart and what can be set. Fields
// without a tag are what was found in the files.
type table struct {
	Files     []part  `yaml:"files"`
	Documents []part  `yaml:"documents"`
	Values    []value `yaml:"values"`

	// parameters are the names of all annotations fence.goless.io/*.
	parameters map[string]bool
}

// A part is a file of deploy/, or a document by its kind and name. It is in the chart if a condition
// holds, which is an expression as Helm's if takes it.
type part struct {
	Name string `yaml:"name"`
	If   string `yaml:"if"`

	found bool
}

// A value is what can be set. It takes the place of all of Sets, which have to be equal and are its
// default if there is no other one.
type value struct {
	Name    string    `yaml:"name"`
	About   string    `yaml:"about"`
	Default yaml.Node `yaml:"default"`
	Sets    []place   `yaml:"sets"`
	Inserts []insert  `yaml:"inserts"`
}

// A place is a node of a document. Documents are named by their kind and name, and find explains paths.
type place struct {
	Document string   `yaml:"document"`
	Path     []string `yaml:"path"`

	found bool
}

// An insert is template text for the last lines of a mapping, a list or a text. It is for all documents
// whose kind and name match a pattern of path.Match.
type insert struct {
	Document string   `yaml:"document"`
	Into     []string `yaml:"into"`
	Text     string   `yaml:"text"`

	found bool
	// given are the fields that the mapping has in the file already.
	given []string
}

// readTable reads a table. A field that is not known is an error.
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

// check returns an error for everything in the table that is not complete, or was not found in a file.
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

// putImages replaces the defaults that are import paths, which ko builds, by their images. A chart with
// some images of ko and some import paths would be of no use, so that either all images are given or
// none.
func (t *table) putImages(images map[string]string) error {
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

// check returns an error if a value is not complete, or if one of its places was not found.
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
