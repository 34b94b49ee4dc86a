package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// namespace is where deploy/ installs Goless. In the chart the release says where.
const namespace = "goless-system"

// A table is deploy/chart/chart.yaml.
type table struct {
	Files  []file  `yaml:"files"`
	Values []value `yaml:"values"`
}

// A file of deploy/ is a template of the chart, if the value that Enabled names is true.
type file struct {
	Name    string `yaml:"name"`
	Enabled string `yaml:"enabled"`
}

// A value is what can be set. Its default is Default, or what stands at all of Sets.
type value struct {
	Name    string    `yaml:"name"`
	About   string    `yaml:"about"`
	Default yaml.Node `yaml:"default"`
	Sets    []place   `yaml:"sets"`
	Inserts []insert  `yaml:"inserts"`
}

// A place is a node of a document, which is named by its kind and name.
type place struct {
	Document string   `yaml:"document"`
	Path     []string `yaml:"path"`
}

// An insert is template text for the last lines of a mapping, or of a text.
type insert struct {
	Document string   `yaml:"document"`
	Into     []string `yaml:"into"`
	Text     string   `yaml:"text"`
}

// A chart is the files of a Helm chart by their paths in it.
type chart map[string][]byte

// derive makes the chart. An image that is not among images is named as in deploy/.
func derive(deploy, version string, images map[string]string) (chart, error) {
	own := filepath.Join(deploy, "chart")
	text, err := os.ReadFile(filepath.Join(own, "chart.yaml"))
	if err != nil {
		return nil, err
	}
	var t table
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&t); err != nil {
		return nil, fmt.Errorf("chart.yaml: %w", err)
	}
	c := chart{}
	for _, f := range t.Files {
		text, err := os.ReadFile(filepath.Join(deploy, f.Name))
		if err != nil {
			return nil, err
		}
		template, err := t.template(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if f.Enabled != "" {
			template = fmt.Sprintf("{{- if .Values.%s }}\n%s{{- end }}\n", f.Enabled, template)
		}
		c["templates/"+path.Base(f.Name)] = []byte(template)
	}
	if err := t.complete(images); err != nil {
		return nil, err
	}
	if c["values.yaml"], err = t.values(); err != nil {
		return nil, err
	}
	if c["values.schema.json"], err = t.schema(); err != nil {
		return nil, err
	}
	err = errors.Join(c.copy(own, "chart.yaml"), c.copy(filepath.Join(deploy, "monitoring"), "README.md"))
	c["Chart.yaml"] = bytes.ReplaceAll(c["Chart.yaml"], []byte("0.0.0"), []byte(version))
	return c, err
}

// copy takes all files of a directory as they are, those of deploy/monitoring below the
// name of that, where templates read them.
func (c chart) copy(dir, except string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == except || strings.HasSuffix(name, "_test.yaml") {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if base := filepath.Base(dir); base != "chart" {
			relative = filepath.Join(base, relative)
		}
		c[filepath.ToSlash(relative)], err = os.ReadFile(name)
		return err
	})
}

// epoch is when all files were changed, so that a package of them is always the same bytes.
var epoch = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// write writes all files below dir.
func (c chart) write(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	for name, text := range c {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(name, text, 0o644), os.Chtimes(name, epoch, epoch)); err != nil {
			return err
		}
	}
	return nil
}

// complete reports what matches nothing, and puts images in the place of what ko builds.
func (t *table) complete(images map[string]string) error {
	var errs []error
	for i := range t.Values {
		v := &t.Values[i]
		switch {
		case v.Default.IsZero():
			errs = append(errs, fmt.Errorf("chart.yaml: %s has no default, and no document of a file that is listed has %v", v.Name, v.Sets))
		case v.Default.Kind == yaml.ScalarNode:
			v.Default.Value = cmp.Or(images[v.Default.Value], v.Default.Value)
		}
		for _, s := range v.Sets {
			errs = append(errs, fmt.Errorf("chart.yaml: %s: there is no %s with %s", v.Name, s.Document, strings.Join(s.Path, ", ")))
		}
		for _, i := range v.Inserts {
			errs = append(errs, fmt.Errorf("chart.yaml: %s: there is no %s with %s", v.Name, i.Document, strings.Join(i.Into, ", ")))
		}
	}
	return errors.Join(errs...)
}

// template makes a template of a file. It takes the places that it has found out of the
// table, so that those are left which are nowhere.
func (t *table) template(text string) (string, error) {
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
		if err := errors.Join(t.mark(document.Content[0], &all), encoder.Encode(&document)); err != nil {
			return "", err
		}
	}
	err := encoder.Close()
	return all.replacer().Replace(literal(out.String())), err
}

// literal is text as a template writes it again, but for the namespace.
func literal(text string) string {
	text = strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
	return strings.ReplaceAll(text, namespace, "{{ .Release.Namespace }}")
}

// mark puts marks into a document where the template differs from it.
func (t *table) mark(document *yaml.Node, all *marks) (err error) {
	name, err := nameOf(document)
	if err != nil {
		return err
	}
	for i := range t.Values {
		v := &t.Values[i]
		v.Sets = slices.DeleteFunc(v.Sets, func(s place) bool {
			node, prefix := find(document, s.Path)
			ok := node != nil && s.Document == name
			if ok {
				err = errors.Join(err, v.hasDefault(without(node, prefix)), all.set(node, prefix, v.Name, len(s.Path)))
			}
			return ok
		})
		v.Inserts = slices.DeleteFunc(v.Inserts, func(in insert) bool {
			node, _ := find(document, in.Into)
			ok := node != nil && in.Document == name
			if ok {
				all.insert(node, in.Text, len(in.Into))
			}
			return ok
		})
	}
	return err
}

// hasDefault says that a value stands for what is at a place. All its places have the same.
func (v *value) hasDefault(is *yaml.Node) error {
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

// nameOf is the kind and the name of an object.
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
