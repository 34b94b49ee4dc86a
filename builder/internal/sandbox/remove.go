package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll is like os.RemoveAll, for files that a command has created. It also removes directories
// of this user whose permissions forbid it, which os.RemoveAll can only do as root. No process may
// write to dir in the meantime.
func RemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close() //nolint:errcheck // it is only a directory
	if info, err := parent.Lstat(filepath.Base(dir)); err == nil && info.IsDir() {
		permit(parent, filepath.Base(dir))
	}
	return os.RemoveAll(dir)
}

// permit changes the permissions of directories in a directory, as far as this user owns them, so
// that this user can remove their content. It follows no links: a Root opens no directory outside
// of it, and only directories are changed.
func permit(parent *os.Root, name string) {
	_ = parent.Chmod(name, 0o700) // the following RemoveAll reports what cannot be removed
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return
	}
	defer dir.Close()                       //nolint:errcheck // it is only a directory
	entries, _ := fs.ReadDir(dir.FS(), ".") // the following RemoveAll reports errors
	for _, entry := range entries {
		if entry.IsDir() {
			permit(dir, entry.Name())
		}
	}
}
