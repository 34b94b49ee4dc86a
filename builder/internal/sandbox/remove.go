package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveAll is os.RemoveAll for what a command has left. It also removes directories of this user
// that do not permit that, which only root could remove otherwise. No process may write there
// meanwhile.
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

// permit lets this user remove what is below a directory, as far as that belongs to this user. It
// follows no links: a Root leads to no directory outside of it, and what is not a directory is
// left as it is.
func permit(parent *os.Root, name string) {
	_ = parent.Chmod(name, 0o700) // whoever removes the directory reports what cannot be removed
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return
	}
	defer dir.Close()                       //nolint:errcheck // it is only a directory
	entries, _ := fs.ReadDir(dir.FS(), ".") // likewise
	for _, entry := range entries {
		if entry.IsDir() {
			permit(dir, entry.Name())
		}
	}
}
