package modproxy

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/tools/txtar"
)

// Add adds a module of the files in a txtar archive, of which one is go.mod.
func (p *Proxy) Add(path, version string, archive []byte) error {
	return p.pack(module.Version{Path: path, Version: version}, txtar.Parse(archive).Files)
}

func (p *Proxy) pack(m module.Version, content []txtar.File) error {
	var mod []byte
	var packed bytes.Buffer
	w := zip.NewWriter(&packed)
	for _, f := range content {
		if f.Name == "go.mod" {
			mod = f.Data
		}
		entry, err := w.Create(m.String() + "/" + f.Name)
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.Data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	p.add(m, func(f *files) { f.mod, f.zip = fromData(mod), fromData(packed.Bytes()) })
	return nil
}

// Sums returns the lines of a go.sum for a version of a module.
func (p *Proxy) Sums(path, version string) (string, error) {
	p.mu.Lock()
	found := p.modules[module.Version{Path: path, Version: version}]
	p.mu.Unlock()
	if found.zip == nil {
		return "", fmt.Errorf("there is no %s@%s", path, version)
	}
	mod, err := found.mod()
	if err != nil {
		return "", err
	}
	data, err := found.zip()
	if err != nil {
		return "", err
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return "", err
	}
	entries := make(map[string]*zip.File)
	for _, f := range r.File {
		entries[f.Name] = f
	}
	all, err := dirhash.Hash1(slices.Collect(maps.Keys(entries)), func(name string) (io.ReadCloser, error) { return entries[name].Open() })
	if err != nil {
		return "", err
	}
	one, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(mod)), nil })
	return fmt.Sprintf("%s %s %s\n%[1]s %[2]s/go.mod %[4]s\n", path, version, all, one), err
}

// Copy adds a version of a module that has the files of another one, changed.
func (p *Proxy) Copy(path, from, to string, change func([]txtar.File) []txtar.File) error {
	p.mu.Lock()
	original := p.modules[module.Version{Path: path, Version: from}]
	p.mu.Unlock()
	if original.zip == nil {
		return fmt.Errorf("there is no %s@%s to copy", path, from)
	}
	data, err := original.zip()
	if err != nil {
		return err
	}
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	var files []txtar.File
	for _, f := range r.File {
		content, err := readEntry(f)
		if err != nil {
			return err
		}
		files = append(files, txtar.File{Name: strings.TrimPrefix(f.Name, path+"@"+from+"/"), Data: content})
	}
	return p.pack(module.Version{Path: path, Version: to}, change(files))
}

func readEntry(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close() //nolint:errcheck // it was only read
	return io.ReadAll(r)
}
