package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
)

// A Quota limits the total disk usage of the commands of a build. A nil Quota limits nothing.
type Quota struct {
	// Paths are the files and directory trees to measure. They need not exist.
	Paths []string

	// Bytes is the maximum disk space.
	Bytes int64

	// Files is the maximum number of files and directories.
	Files int
}

// check returns an error that is ErrTooLarge if the usage exceeds q, or if the command prevents the
// measurement, by a directory that cannot be read or whose path is too long. It ignores files that
// the command has removed or replaced in the meantime, and failures of the machine, such as too
// many open files, because the next check follows soon.
func (q *Quota) check() error {
	if q == nil {
		return nil
	}
	var used Quota
	for _, path := range q.Paths {
		err := filepath.WalkDir(path, func(_ string, entry fs.DirEntry, err error) error {
			var info fs.FileInfo
			if err == nil {
				info, err = entry.Info()
			}
			switch {
			case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, syscall.ELOOP):
				return &QuotaError{Unmeasured: reason(err)}
			case err != nil:
				return nil //nolint:nilerr // the next check follows soon
			}
			used.Files++
			used.Bytes += DiskUse(info)
			return q.compare(used)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reason returns the system error without the path, which means nothing to an author.
func reason(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
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

// A QuotaError reports that a command exceeded its Quota, or that its disk usage cannot be
// measured. It is an ErrTooLarge.
type QuotaError struct {
	// Most is the limit of the Quota, such as "896 MiB" or "100000 files". It is empty if
	// Unmeasured is set.
	Most string

	// Unmeasured is the reason why the files of the command cannot be measured; nil if they can.
	Unmeasured error
}

// Error returns what was exceeded and what the author of the program can do.
func (e *QuotaError) Error() string {
	if e.Unmeasured != nil {
		return fmt.Sprintf("%v: cannot measure its disk usage: %v; simplify the source, because this can be a bug in the compiler", ErrTooLarge, e.Unmeasured)
	}
	return fmt.Sprintf("%v: its build uses more than %s on disk; make large variables and embedded files smaller, or require fewer modules", ErrTooLarge, e.Most)
}

// Is reports whether target is ErrTooLarge.
func (e *QuotaError) Is(target error) bool { return target == ErrTooLarge }
