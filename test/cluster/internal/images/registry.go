// Package images contains the image registry of the cluster, and pushes the two images that must
// exist before any other: the static base image and the pause image. The caller provides the
// address of the registry.
package images

import (
	"fmt"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/registry"
)

// keepBytes is the maximum size of the layers of earlier clusters that a new registry keeps.
const keepBytes = 2 << 30

// NewRegistry returns a registry that stores layers in dir and names in memory, so that a push
// to a new cluster sends only what has changed since the last one. It empties dir if the layers
// exceed 2 GiB.
func NewRegistry(dir string, logger *log.Logger) (http.Handler, error) {
	size, err := treeSize(dir)
	if err != nil {
		return nil, err
	}
	if size > keepBytes {
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(dir)),
		registry.Logger(logger),
	), nil
}

func treeSize(dir string) (total int64, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", dir, err)
	}
	return total, nil
}
