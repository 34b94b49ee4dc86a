package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	manifestName = "packages.json"
	sourceDir    = "source" // contains the author's files
)

// A manifest describes the content of the archive. Package testrunner writes it.
type manifest struct {
	// Module is the prefix of the author's files in stack traces.
	Module string

	// Packages are the packages with tests, in the order in which they run.
	Packages []testPackage
}

// A testPackage is a package with tests.
type testPackage struct {
	// Dir is the slash-separated directory of the package in the source.
	Dir string

	// Binary is the name of its compiled tests in the archive.
	Binary string
}

// An archive is the archive at the end of this program.
type archive struct {
	file     *os.File
	zip      *zip.Reader
	manifest manifest
	files    map[string]bool // names of the author's files
}

// openArchive opens the archive of this program.
func openArchive() (*archive, error) {
	file, err := openSelf()
	if err != nil {
		return nil, fmt.Errorf("opening this program: %w", err)
	}
	a := &archive{file: file, files: map[string]bool{}}
	if err := a.read(); err != nil {
		a.close()
		return nil, fmt.Errorf("reading the archive of this program: %w", err)
	}
	return a, nil
}

// openSelf opens the file of this program. A program that is executed from memory has no path
// except /proc/self/exe, which only Linux has.
func openSelf() (*os.File, error) {
	if file, err := os.Open("/proc/self/exe"); err == nil {
		return file, nil
	}
	path, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

func (a *archive) close() { _ = a.file.Close() } // it was only read

func (a *archive) read() error {
	info, err := a.file.Stat()
	if err != nil {
		return err
	}
	if a.zip, err = zip.NewReader(a.file, info.Size()); err != nil {
		return err
	}
	for _, f := range a.zip.File {
		if name, ok := strings.CutPrefix(f.Name, sourceDir+"/"); ok {
			a.files[name] = true
		}
	}
	file, err := a.zip.Open(manifestName)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	return json.NewDecoder(file).Decode(&a.manifest)
}

// unpackFiles writes the author's files to a directory.
func (a *archive) unpackFiles(dir string) error {
	for name := range a.files {
		name = sourceDir + "/" + name
		local := filepath.FromSlash(name)
		if !filepath.IsLocal(local) {
			return fmt.Errorf("%s is not a local path", name)
		}
		to := filepath.Join(dir, local)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := a.unpack(name, to, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// unpack writes a file of the archive.
func (a *archive) unpack(name, to string, mode os.FileMode) error {
	from, err := a.zip.Open(name)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, from)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
