package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// checkBinary returns an error if path is a file that a binary must not replace. Only empty files
// and programs that Go has built may be replaced.
func checkBinary(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !info.Mode().IsRegular(), err == nil && info.Size() == 0:
		return nil
	case err != nil:
		return err
	}
	if _, err := buildinfo.ReadFile(path); err != nil {
		return fmt.Errorf("%s exists and is not a Go binary; set another path with --output-binary", path)
	}
	return nil
}

// workDir creates a temporary directory for a file that will be moved to path, and returns its
// absolute path. The directory is next to path, so that the file can be renamed, unless path is a
// special file such as a device or a pipe.
func workDir(path string) (string, error) {
	beside := filepath.Dir(path)
	if isSpecial(path) {
		beside = ""
	}
	dir, err := os.MkdirTemp(beside, ".builder-")
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err // removes the name of the temporary directory
	}
	if err != nil {
		return "", fmt.Errorf("cannot write %s: %w", path, err)
	}
	return filepath.Abs(dir)
}

// moveBinary moves the file from to path atomically. It replaces a symbolic link at path, not its
// target. If path is a device or a pipe, it writes the binary to it.
func moveBinary(from, path string) error {
	if !isSpecial(path) {
		return os.Rename(from, path)
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// isSpecial reports whether path exists and is neither a regular file nor a directory.
func isSpecial(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.Mode().IsRegular() && !info.IsDir()
}
