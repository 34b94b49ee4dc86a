package gotool

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"
)

const (
	// maxModules is what the modules of one program may take on the disk, packed
	// and unpacked, in bytes. A container, and those whose builds it makes, has
	// little more.
	maxModules = 768 << 20

	// diskPause is how often that is measured. It takes some ten milliseconds.
	diskPause = 250 * time.Millisecond
)

// errDisk says that a command has filled a directory.
var errDisk = errors.New("too much was written")

// limitDisk kills a process group when what is below dir grows beyond limit, in
// bytes. It goes on until it is called off, which tells whether that has happened.
func limitDisk(group int, dir string, limit int64) (callOff func() bool) {
	if dir == "" {
		return func() bool { return false }
	}
	end := killWhen(group, diskPause, func() bool { return diskUse(dir) > limit })
	return func() bool {
		end()
		return diskUse(dir) > limit
	}
}

// diskUse returns the size of all files below dir, in bytes.
func diskUse(dir string) (sum int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // somebody works there: what is gone takes nothing
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
