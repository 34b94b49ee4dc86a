package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// A chart contains the files of a Helm chart by path.
type chart map[string][]byte

// derive generates the chart from the directory deploy. An image that is not in images keeps its
// name.
func derive(deploy, version string, images map[string]string) (chart, error) {
	own := filepath.Join(deploy, "chart")
	t, err := readTable(filepath.Join(own, "chart.yaml"))
	if err != nil {
		return nil, err
	}
	c := chart{}
	if err := c.addTemplates(deploy, t); err != nil {
		return nil, err
	}
	// The templates determine the defaults of the values.
	if err := errors.Join(t.setImages(images), t.check()); err != nil {
		return nil, err
	}
	if c["values.yaml"], err = t.values(); err != nil {
		return nil, err
	}
	if c["values.schema.json"], err = t.schema(); err != nil {
		return nil, err
	}
	// The templates of the chart read the alerts and dashboards of deploy/monitoring.
	if err := errors.Join(c.copy(own, "", "chart.yaml"), c.copy(filepath.Join(deploy, "monitoring"), "monitoring", "README.md")); err != nil {
		return nil, err
	}
	c["Chart.yaml"] = bytes.ReplaceAll(c["Chart.yaml"], []byte("0.0.0"), []byte(version))
	return c, nil
}

// addTemplates adds a template for each file of the table.
func (c chart) addTemplates(deploy string, t *table) error {
	for _, f := range t.Files {
		text, err := os.ReadFile(filepath.Join(deploy, f.Name))
		if err != nil {
			return err
		}
		template, err := t.template(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if f.If != "" {
			template = fmt.Sprintf("{{- if %s }}\n%s{{- end }}\n", f.If, template)
		}
		c["templates/"+path.Base(f.Name)] = []byte(template)
	}
	return nil
}

// copy copies the files of dir to the directory to of the chart, except for the file except and for
// tests.
func (c chart) copy(dir, to, except string) error {
	return filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || entry.Name() == except || strings.HasSuffix(name, "_test.yaml") {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		c[path.Join(to, filepath.ToSlash(relative))], err = os.ReadFile(name)
		return err
	})
}

// epoch is the modification time of all files in the chart, which makes packages reproducible.
var epoch = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// write writes all files to dir.
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
