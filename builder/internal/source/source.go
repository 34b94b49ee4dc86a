// Package source reads the source of a Function from a Go file, a txtar archive, or the directory of
// a Go module or package. It does not check sources, and writes no files.
package source

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"goless.io/builder/handler"
)

// Stdin is the path of standard input.
const Stdin = "-"

// StdinName is the name of standard input in messages.
const StdinName = "<stdin>"

// maxSize is the maximum size of an input, in bytes. A cluster accepts much less.
const maxSize = 16 << 20

// A Source is the source of a Function.
type Source struct {
	// Name is the name of the file without its extension, or the name of the directory or its module.
	Name string

	// Text is the value for spec.function: a Go file, or a txtar archive of several files.
	Text []byte

	// Files are the files of the source. The Line of each is the line of Text at which its content
	// begins; it is 1 for files of Dir.
	Files []handler.File

	// File is the name of the file or directory in messages: its path, or StdinName for standard
	// input.
	File string

	// Dir is the directory of the Files. It is empty if File contains them all.
	Dir string

	// Within is the slash-separated directory of the package, relative to the module Dir, if the
	// source is one package of a module. Otherwise it is empty.
	Within string

	// Modified is the latest modification time of the files in a directory. It is zero for a single
	// file.
	Modified time.Time
}

// ReadDir returns the Source for the module or package in a directory, and notes for the user about
// files that it has left out.
func ReadDir(dir string) (*Source, []string, error) {
	root := FindModule(dir)
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || root == "" {
		return readDirectory(dir)
	}
	return readPackage(root, dir, "")
}

// ReadFile returns the Source in a file. path is the path of the file, name its name in messages,
// and data its content. If a Go file imports packages outside the standard library, the Source
// includes the files of its module that it needs.
func ReadFile(path, name string, data []byte) (*Source, []string, error) {
	f := &Source{
		Name:  functionName(path),
		Text:  data,
		Files: handler.Split(handler.Filename, data),
		File:  name,
	}
	if path == Stdin || handler.IsArchive(data) || filepath.Ext(path) != ".go" {
		return f, nil, nil
	}
	root := FindModule(filepath.Dir(path))
	if root == "" {
		return f, nil, nil
	}
	inModule, notes, err := readPackage(root, filepath.Dir(path), filepath.Base(path))
	if err == nil && inModule.Within == "" {
		return f, nil, nil
	}
	return inModule, notes, err
}

// Load reads the file path, or stdin if path is Stdin, and returns its content and its name in
// messages: path, or StdinName for standard input. The error is a *handler.Error if the content is
// encoded as UTF-16.
func Load(path string, stdin io.Reader) (name string, data []byte, err error) {
	name = path
	if path == Stdin {
		name = StdinName
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
		return "", nil, handler.NewError(name, 1, 0, utf16Message)
	case filepath.Ext(path) != ".go" && bytes.IndexByte(data, 0) >= 0:
		return "", nil, fmt.Errorf("%s is not text", name)
	case len(data) > maxSize:
		return "", nil, fmt.Errorf("%s is larger than %d MiB", name, maxSize>>20)
	}
	return name, data, nil
}

// functionName derives the name of a Function from the path of a file.
func functionName(path string) string {
	if path == Stdin {
		return "function"
	}
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}
