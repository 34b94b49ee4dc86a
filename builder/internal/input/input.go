// Package input owns the forms in which people hand Functions to the builder: a
// Go file, a txtar archive, the directory of a Go module, a YAML file with one
// Function or several among other objects, or any of these but a directory on
// standard input. It maps places in a source back to places in what was handed
// in, and says how that has to change when a source does. It refuses to know
// whether a source is right, and writes nothing.
package input

import (
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"goless.io/builder/handler"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// stdinName is what it is called in front of people.
const stdinName = "<stdin>"

// maxSize is in bytes. Nothing that a cluster accepts comes near.
const maxSize = 16 << 20

// Function is one Function of an input.
type Function struct {
	// Name is metadata.name, the name of a file without its extension, or that
	// of a directory or its module.
	Name string

	// Source is what spec.function holds or could hold: one Go file, or a txtar
	// archive of several.
	Source []byte

	// Serving is what the YAML of the Function says of how it is served.
	Serving Serving

	files []handler.File // of the source
	file  string         // that holds the source, for people
	dir   string         // that holds the files one by one, "" when file holds them all
	block *block         // of YAML, or nil
	text  []byte         // of the whole file, nil with dir

	mention *regexp.Regexp // when it is needed
	compile sync.Once      // mention
}

// Read returns the Functions in the file or directory path, or in stdin when
// path is Stdin, and notes on what it has left out. What a file is, its content
// says. The error is a *handler.Error when the author of the input has to act.
func Read(path string, stdin io.Reader) (functions []*Function, notes []string, err error) {
	if info, err := os.Stat(path); path != Stdin && err == nil && info.IsDir() {
		return readDirectory(path)
	}
	name, data, err := load(path, stdin)
	if err != nil {
		return nil, nil, err
	}
	if isSource(path, data) {
		function, err := readSource(path, name, data)
		if err != nil {
			return nil, nil, err
		}
		return []*Function{function}, nil, nil
	}
	functions, notes, err = readYAML(name, data)
	if err == nil && len(functions) == 0 {
		err = fmt.Errorf("%s holds no Function of goless.io", name)
	}
	return functions, notes, err
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
	case len(data) > maxSize:
		return "", nil, fmt.Errorf("%s is larger than %d MiB", name, maxSize>>20)
	}
	return name, data, nil
}

// isSource reports whether data is a source rather than YAML with sources in it.
// Without a name that says it, and without a package clause, it is what it can
// be parsed as.
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

// readSource returns the Function whose source is the whole file. When that is
// one Go file which imports what is not in the standard library, a go.mod beside
// it belongs to it, as it does for the go command.
func readSource(path, name string, data []byte) (*Function, error) {
	f := &Function{
		Name:   functionName(path),
		Source: data,
		files:  handler.Split(handler.Filename, data),
		file:   name,
		text:   data,
	}
	if path == Stdin || handler.IsArchive(data) || !importsModules(data) {
		return f, nil
	}
	files := []handler.File{{Name: filepath.Base(path), Line: 1, Data: data}}
	for _, module := range []string{"go.mod", "go.sum"} {
		data, err := os.ReadFile(filepath.Join(filepath.Dir(path), module))
		if os.IsNotExist(err) {
			break
		} else if err != nil {
			return nil, err
		}
		files = append(files, handler.File{Name: module, Line: 1, Data: data})
	}
	if len(files) == 1 {
		return f, nil
	}
	return newDirectory(f.Name, filepath.Dir(path), files)
}

// importsModules reports whether a Go file imports something by a path that
// begins like a host name, as those of other modules do.
func importsModules(data []byte) bool {
	file, err := parser.ParseFile(token.NewFileSet(), "", data, parser.ImportsOnly)
	if err != nil {
		return false
	}
	for _, spec := range file.Imports {
		first, _, _ := strings.Cut(strings.Trim(spec.Path.Value, "\"`"), "/")
		if strings.Contains(first, ".") && first != "goless.io" {
			return true
		}
	}
	return false
}

// functionName derives a name from the path of a file.
func functionName(path string) string {
	if path == Stdin {
		return "function"
	}
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}
