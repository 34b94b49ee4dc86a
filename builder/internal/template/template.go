// Package template contains the templates of builder new. Each template is a package in a
// subdirectory, so that the template is compiled and tested with the builder.
package template

import (
	"embed"
	"io/fs"

	"goless.io/builder/handler"
)

//go:embed http json cloudevents html
var all embed.FS

// Default is the template if none is named.
const Default = "http"

// Names are the names of all templates, the default first.
var Names = []string{Default, "json", "cloudevents", "html"}

// Files returns the files of a template, which is one of Names.
func Files(name string) (files []handler.File, err error) {
	err = fs.WalkDir(all, name, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := all.ReadFile(file)
		files = append(files, handler.File{Name: file[len(name)+1:], Line: 1, Data: data})
		return err
	})
	return files, err
}
