package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// layer collects files in the order in which they are added. All of them belong to root and
// have the same time, so that the same files result in the same layer.
type layer struct {
	buffer bytes.Buffer
	tar    *tar.Writer
	dirs   map[string]bool
}

func newLayer() *layer {
	l := &layer{dirs: make(map[string]bool)}
	l.tar = tar.NewWriter(&l.buffer)
	return l
}

// dir adds a directory, and its parents with mode 0755.
func (l *layer) dir(name string, mode int64) error {
	if name == "." || l.dirs[name] {
		return nil
	}
	if err := l.dir(path.Dir(name), 0o755); err != nil {
		return err
	}
	l.dirs[name] = true
	return l.tar.WriteHeader(&tar.Header{
		Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, ModTime: time.Unix(0, 0),
	})
}

// file adds a file and its parent directories.
func (l *layer) file(name string, mode int64, content []byte) error {
	if err := l.dir(path.Dir(name), 0o755); err != nil {
		return err
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: time.Unix(0, 0),
	}
	if err := l.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err := l.tar.Write(content)
	return err
}

// copyFile adds a file of this machine at the same path. It follows links.
func (l *layer) copyFile(source string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	return l.file(strings.TrimPrefix(source, "/"), 0o644, content)
}

// copyZones adds the time zones below root, except the directories posix and right, which
// contain copies.
func (l *layer) copyZones(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("time zones: %w", err)
	}
	for _, entry := range entries {
		name := filepath.Join(root, entry.Name())
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		switch {
		case entry.Name() == "posix" || entry.Name() == "right":
		case info.IsDir():
			err = l.copyZones(name)
		default:
			err = l.copyFile(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// build returns the finished layer.
func (l *layer) build() (v1.Layer, error) {
	if err := l.tar.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(l.buffer.Bytes())), nil
	})
}
