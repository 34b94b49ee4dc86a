package gotool

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"goless.io/builder/internal/program"
)

// fetchedName is the directory of a program into which modules are fetched where
// the module cache is read-only.
const fetchedName = "gomodcache"

// modules returns the module cache that a build of p uses.
func (t *Toolchain) modules(p *program.Program) string {
	if t.Sealed && p.Fetches() {
		return filepath.Join(p.Dir, fetchedName)
	}
	return t.Modules
}

// openModules makes a module cache of p's own that can be written and holds what
// that of the toolchain does, in place: modules and what is known of them are
// links.
func (t *Toolchain) openModules(p *program.Program) error {
	own := t.modules(p)
	if own == t.Modules || isDir(own) {
		return nil
	}
	err := filepath.WalkDir(t.Modules, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(own, strings.TrimPrefix(path, t.Modules))
		switch {
		case strings.Contains(entry.Name(), "@v") && entry.Name() != "@v":
			if err := os.Symlink(path, target); err != nil {
				return err
			}
			return skipDir(entry)
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		}
		return os.Symlink(path, target)
	})
	if err != nil {
		return fmt.Errorf("making a module cache: %w", err)
	}
	return nil
}

func skipDir(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}
