// Package input owns the forms in which people hand Functions to the builder: a
// Go file, a YAML file with one Function or several among other objects, or
// either on standard input. It maps places in the source back to places in what
// was handed in. It refuses to know whether a source is right.
package input

import (
	"fmt"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"goless.io/builder/handler"
)

// Stdin is the path that stands for standard input.
const Stdin = "-"

// maxSize is in bytes. Nothing that a cluster accepts comes near.
const maxSize = 16 << 20

// Function is one Function of an input.
type Function struct {
	// Name is metadata.name, or the name of a Go file without its extension.
	Name string

	// Source is the Go source.
	Source []byte

	file  string
	block *block // nil for a Go file
}

// mention matches a place that the message of a diagnostic names.
var mention = regexp.MustCompile(`\b` + regexp.QuoteMeta(handler.Filename) + `:(\d+):(\d+)`)

// Locate returns d, which is in the lines of the source, in the lines of the
// input. So are the places that its message names.
func (f *Function) Locate(d handler.Diagnostic) handler.Diagnostic {
	d.Message = mention.ReplaceAllStringFunc(d.Message, func(place string) string {
		match := mention.FindStringSubmatch(place)
		line, _ := strconv.Atoi(match[1]) // digits
		column, _ := strconv.Atoi(match[2])
		at := f.locate(line, column)
		return fmt.Sprintf("%s:%d:%d", f.file, at.line, at.column)
	})
	at := f.locate(d.Line, d.Column)
	d.File, d.Line, d.Column = f.file, at.line, at.column
	if at.inside != "" {
		d.Message = at.inside + ": " + d.Message
	}
	return d
}

func (f *Function) locate(line, column int) place {
	if f.block == nil {
		return place{line: line, column: column}
	}
	return f.block.locate(line, column)
}

// Read returns the Functions in the file path, or in stdin when path is Stdin,
// and notes on what it has left out. What the file is, its content says. The
// error is a *handler.Error when the author of the input has to act.
func Read(path string, stdin io.Reader) (functions []*Function, notes []string, err error) {
	name, data, err := load(path, stdin)
	if err != nil {
		return nil, nil, err
	}
	if isGo(path, data) {
		return []*Function{{Name: functionName(path), Source: data, file: name}}, nil, nil
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
		name = "<stdin>"
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

// isGo reports whether data is Go rather than YAML. Without a name that says it,
// and without a package clause, it is what it can be parsed as.
func isGo(path string, data []byte) bool {
	extension := filepath.Ext(path)
	if extension == ".go" || slices.Contains([]string{".yaml", ".yml", ".json"}, extension) {
		return extension == ".go"
	}
	_, err := parser.ParseFile(token.NewFileSet(), "", data, parser.PackageClauseOnly)
	return err == nil || !isMapping(data)
}

// functionName derives a name from the path of a Go file.
func functionName(path string) string {
	if path == Stdin {
		return "function"
	}
	return strings.TrimSuffix(filepath.Base(path), ".go")
}
