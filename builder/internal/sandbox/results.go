package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// OpenResult opens, for reading, a file that a command has created. name is its path in dir, a
// directory that the command cannot replace. If the file is not a regular file, OpenResult fails
// without opening it: a symbolic link may lead to a file that the command cannot read, and opening
// a FIFO can block indefinitely.
func OpenResult(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() //nolint:errcheck // it is only a directory
	info, err := root.Lstat(name)
	if err == nil {
		err = checkRegular(name, info)
	}
	if err != nil {
		return nil, err
	}
	// A Root opens no file outside of it.
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err = file.Stat()
	if err == nil {
		err = checkRegular(name, info)
	}
	if err != nil {
		_ = file.Close() // only read
		return nil, err
	}
	return file, nil
}

func checkRegular(name string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("the output %s is not a regular file but %s", name, info.Mode().Type())
	}
	return nil
}

// ReadResult opens a file as OpenResult does, and returns its content. It fails if the file has more
// than limit bytes.
func ReadResult(dir, name string, limit int64) ([]byte, error) {
	file, err := OpenResult(dir, name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("the output %s has more than %d bytes", name, limit)
	}
	return data, err
}

// CopyResult opens a file as OpenResult does, and copies it to a new file with these permissions.
// The new file replaces an existing one. No remaining process of the command can change the copy.
func CopyResult(dir, name, to string, permissions fs.FileMode) error {
	from, err := OpenResult(dir, name)
	if err != nil {
		return err
	}
	defer from.Close() //nolint:errcheck // it was only read
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	copied, err := os.OpenFile(filepath.Clean(to), os.O_WRONLY|os.O_CREATE|os.O_EXCL, permissions)
	if err != nil {
		return err
	}
	_, err = io.Copy(copied, from)
	if closed := copied.Close(); err == nil {
		err = closed
	}
	return err
}
