package main

import (
	"fmt"
	"os"
	"path/filepath"

	"goless.io/builder/handler"
	"goless.io/builder/internal/input"
)

// apply writes edits: into the files, or what came by standard input to standard
// output.
func (s streams) apply(edits []input.Edit) error {
	for _, edit := range edits {
		if edit.Path == input.Stdin {
			if _, err := s.out.Write(edit.New); err != nil {
				return fmt.Errorf("writing the result: %w", err)
			}
			continue
		}
		// The mode of a file that exists stays.
		if err := os.WriteFile(edit.Path, edit.New, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeFiles writes the files of a source into a directory, and nowhere else,
// whatever they are called.
func writeFiles(dir string, files []handler.File) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // it is only a directory
	for _, file := range files {
		name := filepath.FromSlash(file.Name)
		if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(name, file.Data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
