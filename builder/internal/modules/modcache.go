package modules

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// openModules creates p's own module cache, if it uses one, so that modules can be added to it. It
// contains links to everything in the cache of the toolchain.
func openModules(t *toolchain.Toolchain, p *program.Program) error {
	own := t.ModuleCache(p)
	if own == t.Modules {
		return nil
	}
	if _, err := os.Stat(own); err == nil {
		return nil // already created
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
		return fmt.Errorf("creating a module cache: %w", err)
	}
	return nil
}

// RemoveArchives removes the archives of unpacked modules from a module cache. Builds do not need
// them.
func RemoveArchives(cache string) error {
	root, err := os.OpenRoot(cache) // the go command has written there
	if err != nil {
		return fmt.Errorf("removing the archives of modules: %w", err)
	}
	defer root.Close() //nolint:errcheck // it is only a directory
	err = fs.WalkDir(root.FS(), "cache/download", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".zip" && entry.Type().IsRegular() {
			err = root.Remove(path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("removing the archives of modules: %w", err)
	}
	return nil
}

func skipDir(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}
