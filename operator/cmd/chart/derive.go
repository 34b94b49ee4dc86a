package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// namespace is where deploy/ installs Goless. In the chart the release says where.
const namespace = "goless-system"

// A table is deploy/chart/chart.yaml.
type table struct {
	Files     []part  `yaml:"files"`
	Documents []part  `yaml:"documents"`
	Values    []value `yaml:"values"`

	// parameters are the annotations fence.goless.io/* of all files.
	parameters map[string]bool
}

// A part is a file of deploy/, or a document by its kind and name, which is in the chart if a
// condition holds, an expression as Helm's if takes it.
type part struct {
	Name string `yaml:"name"`
	If   string `yaml:"if"`

	found bool
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

	found bool
}

// An insert is template text for the last lines of a mapping, or of a text. Its documents are
// all with a kind and name that match a pattern as path.Match has them.
type insert struct {
	Document string   `yaml:"document"`
	Into     []string `yaml:"into"`
	Text     string   `yaml:"text"`

	// others are the fields of the mapping, which are in the file already.
	others []string
	found  bool
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
	t := table{parameters: map[string]bool{}}
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
		if f.If != "" {
			template = fmt.Sprintf("{{- if %s }}\n%s{{- end }}\n", f.If, template)
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
	err := t.putImages(images)
	for _, v := range t.Values {
		err = errors.Join(err, v.lacks())
	}
	for _, d := range t.Documents {
		if !d.found {
			err = errors.Join(err, fmt.Errorf("chart.yaml: there is no %s", d.Name))
		}
	}
	return err
}

// putImages puts images in the place of what ko builds: all or none.
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

// lacks is an error where a value is not complete, or is for what is not there.
func (v *value) lacks() error {
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

// fenceParameter is what a policy reads of its binding.
var fenceParameter = regexp.MustCompile(`fence\.goless\.io/[a-z]+(-[a-z]+)*`)

// template makes a template of a file, and marks in the table which places it has found.
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
		before, after, err := t.condition(document.Content[0], &all)
		out.WriteString(before)
		if err := errors.Join(err, t.mark(document.Content[0], &all), encoder.Encode(&document)); err != nil {
			return "", err
		}
		out.WriteString(after)
	}
	err := encoder.Close()
	return all.replacer().Replace(literal(out.String())), err
}

// condition is what stands before and after a document that is not always in the chart.
func (t *table) condition(document *yaml.Node, all *marks) (before, after string, err error) {
	name, err := nameOf(document)
	for i := range t.Documents {
		if d := &t.Documents[i]; d.Name == name {
			d.found = true
			before = all.line(fmt.Sprintf("{{- if %s }}\n", d.If))
			after = all.line("{{- end }}\n")
		}
	}
	return before, after, err
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
		for j := range v.Sets {
			s := &v.Sets[j]
			node, prefix := find(document, s.Path)
			if node != nil && s.Document == name {
				err = errors.Join(err, v.hasDefault(without(node, prefix)), all.set(node, prefix, v.Name, len(s.Path)))
				s.found = true
			}
		}
		for j := range v.Inserts {
			in := &v.Inserts[j]
			node, _ := find(document, in.Into)
			if matches, wrong := path.Match(in.Document, name); node != nil && matches {
				in.others = all.insert(node, in.Text, len(in.Into))
				in.found = true
			} else if wrong != nil {
				err = errors.Join(err, fmt.Errorf("chart.yaml: %s: %w", in.Document, wrong))
			}
		}
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
