package input

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"goless.io/builder/handler"
)

// A directoryReader reads the files of a directory that belong to the source.
type directoryReader struct {
	dir      string
	root     *os.Root
	files    []handler.File
	embedded embedding
	notes    []string // about what it has left out
	all      []found  // what it has not left out
	total    int64    // bytes of all
}

// read reads the files that were found, and hidden ones that are embedded.
func (r *directoryReader) read(files []found) error {
	var other []found
	for _, f := range files {
		if path.Ext(f.name) != ".go" {
			other = append(other, f)
		} else if err := r.add(f); err != nil {
			return err
		}
	}
	r.embedded = embedded(r.root, r.files)
	for _, name := range slices.Sorted(maps.Keys(r.embedded)) {
		isFound := slices.ContainsFunc(files, func(f found) bool { return f.name == name })
		if info, err := r.root.Stat(filepath.FromSlash(name)); err == nil && info.Mode().IsRegular() && !isFound {
			other = append(other, found{name, info.Size()})
		}
	}
	for _, f := range other {
		if err := r.add(f); err != nil {
			return err
		}
	}
	slices.SortFunc(r.files, func(a, b handler.File) int {
		return slices.Compare(strings.Split(a.Name, "/"), strings.Split(b.Name, "/"))
	})
	if r.total > maxSize {
		return tooLarge(r.dir, megabytes(r.total), r.all)
	}
	return nil
}

// add reads a file, or leaves it out.
func (r *directoryReader) add(f found) error {
	file, err := r.root.Open(filepath.FromSlash(f.name))
	if err != nil {
		return fmt.Errorf("reading %s: %w", r.dir, err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, maxSize))
	if err != nil {
		return fmt.Errorf("reading %s: %w", r.dir, err)
	}
	if path.Ext(f.name) != ".go" && !r.embedded[f.name] {
		switch {
		case IsObject(bytes.NewReader(data)):
			r.notes = append(r.notes, inDir(r.dir, f.name)+" is a compiled program, left out")
			return nil
		case !isText(data):
			r.notes = append(r.notes, inDir(r.dir, f.name)+" is no text and no Go file embeds it, left out")
			return nil
		}
	}
	r.all = append(r.all, f)
	if r.total += f.size; r.total <= maxSize {
		r.files = append(r.files, handler.File{Name: f.name, Line: 1, Data: data})
	}
	return nil
}
