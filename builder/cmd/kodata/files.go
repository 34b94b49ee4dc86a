package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// commands are the executables that a build needs.
var commands = []string{"bin/go", "compile", "link", "asm"}

// copyToolchain copies what is needed to compile Go without cgo, and undoes what
// a module cannot contain: go.mod files and executables.
func copyToolchain(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && needless(name):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case isCommand(name):
			return copyFile(path, filepath.Join(to, name), 0o755)
		case strings.HasPrefix(name, "bin/"), strings.HasPrefix(name, "pkg/tool/"):
			return nil
		}
		dir, base := filepath.Split(name)
		if base == "_go.mod" {
			base = "go.mod"
		}
		return copyFile(path, filepath.Join(to, dir, base), 0o644)
	})
}

func needless(dir string) bool {
	return slices.Contains([]string{"api", "doc", "lib", "misc", "test", "src/cmd"}, dir) || filepath.Base(dir) == "testdata"
}

func isCommand(name string) bool {
	return slices.ContainsFunc(commands, func(command string) bool {
		return name == command || strings.HasPrefix(name, "pkg/tool/") && filepath.Base(name) == command
	})
}

func copyFile(from, to string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, mode)
}

// prune removes from trees what is neither an input of the compiler nor something
// by which the go command knows modules, nor a license.
func prune(inputs []string, trees ...string) error {
	keep := make(map[string]bool, len(inputs))
	for _, file := range inputs {
		keep[file] = true
	}
	for _, tree := range trees {
		var dirs []string
		err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir():
				dirs = append(dirs, path)
				return os.Chmod(path, 0o755) // the module cache is read-only
			case keep[path] || keeps(entry.Name()):
				return nil
			}
			return os.Remove(path)
		})
		if err != nil {
			return err
		}
		for _, dir := range slices.Backward(dirs) {
			_ = os.Remove(dir) // fails unless it is empty
		}
	}
	return nil
}

func keeps(name string) bool {
	switch {
	case slices.Contains([]string{"go.mod", "go.sum", "modules.txt"}, name):
		return true
	case strings.HasSuffix(name, ".mod"), strings.HasSuffix(name, ".ziphash"):
		return true
	case strings.HasSuffix(name, ".h"): // assembly includes those of other packages
		return true
	}
	return slices.ContainsFunc([]string{"LICENSE", "NOTICE", "PATENTS"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// seal gives the files in dir what they have in an image, so that a test with
// them sees what a pod does: nobody may write them, and they are very old.
func seal(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.IsDir() {
			if err := os.Chmod(path, 0o555); err != nil {
				return err
			}
		}
		return os.Chtimes(path, time.Time{}, time.Unix(0, 0))
	})
}
