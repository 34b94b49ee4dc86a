package sandbox

import (
	"fmt"
	"io/fs"
	"path/filepath"
)

// A Quota limits what the commands of a build leave on the disk, all together. A
// nil Quota limits nothing.
type Quota struct {
	// Paths are the files and directories to measure, with all that is below
	// them. They need not exist.
	Paths []string

	// Bytes is the space on the disk that they may take.
	Bytes int64

	// Files is the number of files and directories that there may be.
	Files int
}

// check returns an error that is ErrTooLarge if there is more than q allows.
func (q *Quota) check() error {
	if q == nil {
		return nil
	}
	var used Quota
	for _, path := range q.Paths {
		err := filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // the command removes files at the same time
			}
			used.Files++
			if info, err := entry.Info(); err == nil {
				used.Bytes += DiskUse(info)
			}
			return q.compare(used)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (q *Quota) compare(used Quota) error {
	switch {
	case used.Bytes > q.Bytes:
		return &QuotaError{Most: fmt.Sprintf("%d MiB", q.Bytes>>20)}
	case used.Files > q.Files:
		return &QuotaError{Most: fmt.Sprintf("%d files", q.Files)}
	}
	return nil
}

// A QuotaError is the ErrTooLarge of a command that has exceeded its Quota.
type QuotaError struct {
	// Most is what the Quota allows, such as "896 MiB" or "100000 files".
	Most string
}

// Error says what was exceeded and what the author of the program can do.
func (e *QuotaError) Error() string {
	return fmt.Sprintf("%v: its build takes more than %s on the disk; make large variables and embedded files smaller, or require fewer modules", ErrTooLarge, e.Most)
}

// Is reports whether target is ErrTooLarge.
func (e *QuotaError) Is(target error) bool { return target == ErrTooLarge }
