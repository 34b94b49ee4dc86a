package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/toolchain"
)

// copyToolchain copies the files that are needed to compile Go without cgo, and, if itself is true,
// to compile the toolchain. It restores go.mod files and the modes of executables, which a module
// cannot contain.
func copyToolchain(from, to string, itself bool) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case entry.IsDir() && (isNeedless(name) || name == "src/cmd" && !itself):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o755)
		case isTool(name) && (itself || isNeeded(name)):
			return copyFile(path, filepath.Join(to, name), 0o755)
		case isTool(name):
			return nil
		}
		dir, base := filepath.Split(name)
		if base == "_go.mod" {
			base = "go.mod"
		}
		return copyFile(path, filepath.Join(to, dir, base), 0o644)
	})
}

func isNeedless(dir string) bool {
	return slices.Contains([]string{"api", "doc", "lib", "misc", "test"}, dir) || filepath.Base(dir) == "testdata"
}

func isTool(name string) bool {
	return strings.HasPrefix(name, "bin/") || strings.HasPrefix(name, "pkg/tool/")
}

// isNeeded reports whether builds of functions execute a tool.
func isNeeded(tool string) bool {
	return tool == "bin/go" || slices.Contains(toolchain.Tools, filepath.Base(tool))
}

func copyFile(from, to string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, mode)
}

// prune removes the files of a tree for which keeps returns false, and directories that become
// empty.
func prune(tree string, keeps func(path string) bool) error {
	var dirs []string
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			dirs = append(dirs, path)
			return os.Chmod(path, 0o755) // the module cache is read-only
		case keeps(path):
			return nil
		}
		return os.Remove(path)
	})
	for _, dir := range slices.Backward(dirs) {
		_ = os.Remove(dir) // fails if it is not empty
	}
	return err
}

// isMetadata reports whether the go command reads a file of the standard library, assembly includes
// it, or it is a license.
func isMetadata(path string) bool {
	name := filepath.Base(path)
	return slices.Contains([]string{"go.mod", "go.sum", "modules.txt"}, name) || strings.HasSuffix(name, ".h") || isLicense(name)
}

func isLicense(name string) bool {
	return slices.ContainsFunc([]string{"LICENSE", "NOTICE", "PATENTS"}, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// isModuleFile reports whether a file of the module cache can be part of a function, or describes
// modules to the go command. Functions may import packages that the runtime does not import.
func isModuleFile(path string) bool {
	name := filepath.Base(path)
	switch {
	case strings.Contains(path, "/cache/download/"):
		return slices.Contains([]string{".mod", ".ziphash"}, filepath.Ext(name))
	case strings.HasSuffix(name, "_test.go"), strings.Contains(path, "/testdata/"):
		return false
	case strings.HasSuffix(name, ".md"):
		return isLicense(name)
	}
	return true // may be embedded
}

// pruneCache removes the function that imports all packages from a build cache: packages that are
// not in the plan, and the actions that produced them.
func pruneCache(cache string, plan *compile.Plan) error {
	keep := map[string]bool{}
	for _, file := range plan.Packages {
		keep[filepath.Base(file)] = true
	}
	removed := map[string]bool{}
	isResult := func(path string) bool { return strings.HasSuffix(path, "-d") }
	err := prune(cache, func(path string) bool {
		name := filepath.Base(path)
		data, err := os.ReadFile(path)
		isPackage := err == nil && isResult(path) && strings.HasPrefix(string(data), "!<arch>")
		removed[strings.TrimSuffix(name, "-d")] = isPackage && !keep[name]
		return !isPackage || keep[name]
	})
	if err != nil {
		return err
	}
	return prune(cache, func(path string) bool {
		if isResult(path) {
			return true
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return true
		}
		fields := strings.Fields(string(data)) // v1, action, result, size, time
		return len(fields) != 5 || !removed[fields[2]]
	})
}

// clearTimes clears the times in a build cache, so that its contents are reproducible.
func clearTimes(cache string) error {
	entries, err := filepath.Glob(filepath.Join(cache, "*", "*-a"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		data, err := os.ReadFile(entry)
		if err != nil {
			return err
		}
		const width = 20 // of the time in nanoseconds, at the end of the line
		end := len(data) - width - 1
		if end < 0 {
			return fmt.Errorf("%s is no entry of a build cache", entry)
		}
		if err := os.WriteFile(entry, fmt.Appendf(data[:end], "%*d\n", width, 0), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// seal makes all files in dir read-only and sets their times to 1970, as in an image, so that
// verify has the same conditions as a pod.
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
