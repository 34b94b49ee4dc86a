// Package manifest reads Functions from a file, a directory or standard input: from YAML, or from
// a source without YAML. It formats the YAML of a Function, translates positions in a source to
// positions in the input, and computes the changes to the input for a changed source. It writes no
// files.
package manifest

import (
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/handler"
	"goless.io/builder/internal/schema"
	"goless.io/builder/internal/source"
)

// Function is a Function in an input.
type Function struct {
	// Name is metadata.name, the name of a file without its extension, or the name of a directory
	// or its module.
	Name string

	// Namespace is metadata.namespace. It is empty if that is not set, and for inputs other than
	// YAML.
	Namespace string

	// Source is the value for spec.function: a Go file, or a txtar archive of several files.
	Source []byte

	// Serving contains the fields in the YAML of the Function that configure how it is served.
	Serving Serving

	// Modified is the latest modification time of the files of the input. It is zero for standard
	// input.
	Modified time.Time

	files []handler.File // files of the source
	file  string         // name in messages of the file with the source
	dir   string         // directory of the files, "" if file contains them all

	within string     // directory of the package in the module dir, "" if files are those of dir
	object *yaml.Node // the YAML, nil for other inputs
	block  *block     // of the YAML, nil for other inputs
	text   []byte     // content of file, nil if dir is set

	mention *regexp.Regexp // matches positions in the files
	compile sync.Once      // initializes mention
}

// Read returns the Functions in the file or directory path, or in stdin if path is source.Stdin, and
// notes for the user about what it has left out. The error is a *handler.Error if it has a position in the
// input, such as a syntax error, and a *NoFunctionError if the input contains no Function.
func Read(path string, stdin io.Reader) (functions []*Function, notes []string, err error) {
	return read(path, stdin, nil)
}

// ReadAll is like Read, but also returns the other objects of goless.io. An input that contains
// only these is not an error.
func ReadAll(path string, stdin io.Reader) (functions []*Function, others []*Object, notes []string, err error) {
	functions, notes, err = read(path, stdin, &others)
	return functions, others, notes, err
}

// NoFunctionError is the error for an input without a Function or, for ReadAll, without any object
// of goless.io.
type NoFunctionError struct {
	name string // name of the input
}

// Error includes the lines that identify a Function.
func (e *NoFunctionError) Error() string {
	return fmt.Sprintf("%s contains no Function of goless.io, with apiVersion: %s and kind: %s", e.name, schema.FunctionVersion(), schema.FunctionKind)
}

func read(path string, stdin io.Reader, others *[]*Object) (functions []*Function, notes []string, err error) {
	info, err := os.Stat(path)
	if path != source.Stdin && err == nil && info.IsDir() {
		return alone(source.ReadDir(path))
	}
	name, data, err := source.Load(path, stdin)
	if err != nil {
		return nil, nil, err
	}
	functions, notes, err = readText(path, name, data, others)
	for _, f := range functions {
		if info != nil && info.ModTime().After(f.Modified) {
			f.Modified = info.ModTime()
		}
	}
	return functions, notes, err
}

// readText returns the Functions in a file.
func readText(path, name string, data []byte, others *[]*Object) (functions []*Function, notes []string, err error) {
	if isSource(path, data) {
		return alone(source.ReadFile(path, name, data))
	}
	functions, notes, err = readYAML(name, data, others)
	if err == nil && len(functions) == 0 && (others == nil || len(*others) == 0) {
		err = &NoFunctionError{name}
	}
	return functions, notes, err
}

// alone returns the results of Read for an input that is the source of a single Function.
func alone(s *source.Source, notes []string, err error) ([]*Function, []string, error) {
	if err != nil {
		return nil, notes, err
	}
	f := &Function{Name: s.Name, Source: s.Text, Modified: s.Modified, files: s.Files, file: s.File, dir: s.Dir, within: s.Within}
	if s.Dir == "" {
		f.text = s.Text
	}
	return []*Function{f}, notes, nil
}

// isSource reports whether data is a source, and not YAML. If the extension of path does not
// determine that, data is a source if it has a package clause or is not a YAML mapping.
func isSource(path string, data []byte) bool {
	switch filepath.Ext(path) {
	case ".go", ".txtar":
		return true
	case ".yaml", ".yml", ".json":
		return false
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", data, parser.PackageClauseOnly)
	return err == nil || !isMapping(data)
}
