// Package input reads Functions from these inputs:
//
//   - a Go file,
//   - a txtar archive,
//   - the directory of a Go module or package,
//   - a YAML file with any number of Functions and other objects,
//   - standard input, with the content of a file.
//
// It translates positions in a source to positions in the input, and computes the changes to the
// input for a changed source. It does not check sources, and writes no files.
package input

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/handler"
)

// Stdin is the path of standard input.
const Stdin = "-"

// stdinName is the name of standard input in messages.
const stdinName = "<stdin>"

// maxSize is the maximum size of an input, in bytes. A cluster accepts much less.
const maxSize = 16 << 20

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
	file  string         // file with the source, as in messages
	dir   string         // directory of the files, "" if file contains them all

	within string     // directory of the package in the module dir, "" if files are those of dir
	object *yaml.Node // the YAML, nil for other inputs
	block  *block     // of the YAML, nil for other inputs
	text   []byte     // content of file, nil if dir is set

	mention *regexp.Regexp // matches positions in the files
	compile sync.Once      // initializes mention
}

// Read returns the Functions in the file or directory path, or in stdin if path is Stdin, and notes
// for the user about what it has left out. The error is a *handler.Error if it has a position in the
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
	_, version := functionSchema()
	return fmt.Sprintf("%s contains no Function of goless.io, with apiVersion: %s and kind: %s", e.name, version, functionKind)
}

func read(path string, stdin io.Reader, others *[]*Object) (functions []*Function, notes []string, err error) {
	info, err := os.Stat(path)
	if path != Stdin && err == nil && info.IsDir() {
		root := FindModule(path)
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil || root == "" {
			return alone(readDirectory(path))
		}
		return alone(readPackage(root, path, ""))
	}
	name, data, err := load(path, stdin)
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
		return alone(readSource(path, name, data))
	}
	functions, notes, err = readYAML(name, data, others)
	if err == nil && len(functions) == 0 && (others == nil || len(*others) == 0) {
		err = &NoFunctionError{name}
	}
	return functions, notes, err
}

// alone returns the results of Read for an input that is a single Function.
func alone(f *Function, notes []string, err error) ([]*Function, []string, error) {
	if err != nil {
		return nil, notes, err
	}
	return []*Function{f}, notes, nil
}

func load(path string, stdin io.Reader) (name string, data []byte, err error) {
	name = path
	if path == Stdin {
		name = stdinName
	} else {
		file, err := os.Open(path)
		if err != nil {
			return "", nil, err
		}
		defer file.Close() //nolint:errcheck // it was only read
		stdin = file
	}
	data, err = io.ReadAll(io.LimitReader(stdin, maxSize+1))
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("reading %s: %w", name, err)
	case slices.Contains([]string{"go.mod", "go.sum", "go.work"}, filepath.Base(path)):
		return "", nil, fmt.Errorf("%s is not Go source; use the directory of the module: %s", name, filepath.Dir(path))
	case isUTF16(data):
		return "", nil, authorError(name, 1, 0, utf16Message)
	case filepath.Ext(path) != ".go" && bytes.IndexByte(data, 0) >= 0:
		return "", nil, fmt.Errorf("%s is not text", name)
	case len(data) > maxSize:
		return "", nil, fmt.Errorf("%s is larger than %d MiB", name, maxSize>>20)
	}
	return name, data, nil
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

// readSource returns the Function whose source is a whole file. If a Go file imports packages
// outside the standard library, the source includes the files of its module that it needs.
func readSource(path, name string, data []byte) (*Function, []string, error) {
	f := &Function{
		Name:   functionName(path),
		Source: data,
		files:  handler.Split(handler.Filename, data),
		file:   name,
		text:   data,
	}
	if path == Stdin || handler.IsArchive(data) || filepath.Ext(path) != ".go" {
		return f, nil, nil
	}
	root := FindModule(filepath.Dir(path))
	if root == "" {
		return f, nil, nil
	}
	inModule, notes, err := readPackage(root, filepath.Dir(path), filepath.Base(path))
	if err == nil && inModule.within == "" {
		return f, nil, nil
	}
	return inModule, notes, err
}

// functionName derives the name of a Function from the path of a file.
func functionName(path string) string {
	if path == Stdin {
		return "function"
	}
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}
