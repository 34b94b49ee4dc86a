package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"goless.io/builder/handler"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/source"
)

// apply writes edits to their files, and the edit of standard input to standard output. It writes
// nothing if a file has changed since it was read.
func (s streams) apply(edits []manifest.Edit) error {
	for _, edit := range edits {
		if err := checkUnchanged(edit); err != nil {
			return err
		}
	}
	for _, edit := range edits {
		err := error(nil)
		if edit.Path == source.Stdin {
			_, err = s.out.Write(edit.New)
		} else {
			err = replaceFile(edit.Path, edit.New)
		}
		if err != nil {
			return fmt.Errorf("writing the result: %w", err)
		}
	}
	return nil
}

// checkUnchanged returns an error if the file of an edit has changed since it was read.
func checkUnchanged(edit manifest.Edit) error {
	if edit.Path == source.Stdin {
		return nil
	}
	if isSpecial(edit.Path) {
		return fmt.Errorf("%s is not a regular file; use - for standard input", edit.Path)
	}
	now, err := os.ReadFile(edit.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && edit.Old == nil:
		return nil
	case err != nil:
		return err
	case edit.Old == nil:
		return fmt.Errorf("%s exists; nothing was written", edit.Path)
	case !bytes.Equal(now, edit.Old):
		return fmt.Errorf("%s changed in the meantime, and nothing was written; try again", edit.Path)
	}
	return nil
}

// replaceFile replaces a file atomically and preserves its mode. If path is a symbolic link, it
// replaces the target.
func replaceFile(path string, data []byte) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	work, err := workDir(path)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // its name says whose it is
	next := filepath.Join(work, "next")
	if err := os.WriteFile(next, data, 0o644); err != nil {
		return err
	}
	if info, err := os.Stat(path); err == nil {
		if err := os.Chmod(next, info.Mode().Perm()); err != nil {
			return err
		}
	}
	return os.Rename(next, path)
}

// writeFiles writes the files of a source to a directory. A name that leads out of the directory is
// an error.
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
