// Package testrunner creates a program that runs the compiled tests of a function in a pod. The
// program is a runner, compiled from the directory main, with an archive appended to the
// executable. The archive contains the tests of each package and the author's files.
package testrunner

import (
	"archive/zip"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"goless.io/builder/handler"
	"goless.io/builder/internal/sandbox"
)

const (
	// MaxSize is the maximum size of the program, in bytes. The launcher in pods rejects larger
	// ones.
	MaxSize = 256 << 20

	// layout must be changed when equal inputs result in different archives.
	layout = "1"
)

// ErrTooLarge is the sandbox.ErrTooLarge for a program that would be larger than MaxSize.
var ErrTooLarge = fmt.Errorf("%w: its tests need more than %d MiB together; make embedded files smaller, or test fewer packages", sandbox.ErrTooLarge, MaxSize>>20)

// A Package is a package with tests.
type Package struct {
	// Dir is its slash-separated directory in the source, and the working directory of its tests.
	Dir string

	// Binary is the path of the file with its compiled tests.
	Binary string
}

// A Program is a program to be written.
type Program struct {
	// Runner is the path of the file with the compiled runner.
	Runner string

	// Module is the prefix of the names of the author's files in stack traces, without a version.
	Module string

	// Packages are the packages in the order in which their tests run.
	Packages []Package

	// Files are the author's files. Tests can read them.
	Files []handler.File
}

// A manifest describes the archive to the runner, which declares the same type.
type manifest struct {
	Module   string
	Packages []Package
}

// Write writes a program to a new file, which replaces an existing one. Equal programs result in
// equal files. The error is ErrTooLarge if the file would be larger than MaxSize.
//
// Write removes the compiled tests of each package after it has copied them, so that they are not on
// the disk twice.
func Write(output string, p Program) error {
	if err := os.Remove(output); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	err = p.write(&limitedWriter{file, MaxSize})
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}

// write writes the runner and the archive.
func (p Program) write(to io.Writer) error {
	runner, err := os.Open(p.Runner)
	if err != nil {
		return err
	}
	defer runner.Close() //nolint:errcheck // it was only read
	size, err := io.Copy(to, runner)
	if err != nil {
		return err
	}
	archive := zip.NewWriter(to)
	archive.SetOffset(size)
	m := manifest{Module: p.Module}
	for i, pkg := range p.Packages {
		name := "tests/" + strconv.Itoa(i)
		if err := moveFile(archive, name, pkg.Binary); err != nil {
			return err
		}
		m.Packages = append(m.Packages, Package{Dir: pkg.Dir, Binary: name})
	}
	encoded, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := addBytes(archive, "packages.json", encoded); err != nil {
		return err
	}
	files := slices.SortedFunc(slices.Values(p.Files), func(a, b handler.File) int { return cmp.Compare(a.Name, b.Name) })
	for _, f := range files {
		if err := addBytes(archive, "source/"+f.Name, f.Data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// moveFile adds a file from disk to an archive and removes it.
func moveFile(archive *zip.Writer, name, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	w, err := archive.CreateHeader(&zip.FileHeader{Name: name}) // stored, without a time
	if err == nil {
		_, err = io.Copy(w, file)
	}
	_ = file.Close() // it was only read
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// addBytes adds a file to an archive.
func addBytes(archive *zip.Writer, name string, data []byte) error {
	w, err := archive.CreateHeader(&zip.FileHeader{Name: name})
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// A limitedWriter fails with ErrTooLarge instead of writing more than its limit.
type limitedWriter struct {
	to   io.Writer
	left int64
}

// Write implements [io.Writer].
func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, ErrTooLarge
	}
	return l.to.Write(p)
}
