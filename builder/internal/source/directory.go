package source

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"goless.io/builder/handler"
)

// maxFiles is the maximum number of files in a directory. A directory with more is probably not the
// one that the user meant.
const maxFiles = 10000

// readDirectory returns the Source for the Go module in a directory, or for the Go package if
// there is no go.mod. The source contains all files, except for:
//
//   - modules below the directory,
//   - go.work,
//   - hidden files, files that are not text, and YAML of Functions, unless a Go file embeds them.
func readDirectory(dir string) (*Source, []string, error) {
	return collect(dir, func(c *collection) (*Source, error) {
		names, err := c.walk()
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", dir, err)
		}
		if err := c.addAll(names); err != nil {
			return nil, err
		}
		return newDirectory(directoryName(dir, c.files), dir, c.files)
	})
}

// walk returns the names of the files that may belong to the source, in lexical order.
func (c *collection) walk() (names []string, err error) {
	var ignored []*modfile.Ignore
	if data, err := c.root.ReadFile("go.mod"); err == nil {
		if mod, err := modfile.ParseLax("go.mod", data, nil); err == nil { // other checks report errors
			ignored = mod.Ignore
		}
	}
	err = fs.WalkDir(c.root.FS(), top, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != top && strings.HasPrefix(entry.Name(), "."):
			return skip(entry)
		case slices.ContainsFunc(ignored, func(i *modfile.Ignore) bool { return isIgnored(i.Path, name) }):
			c.note(name, "is ignored by go.mod; skipped")
			return skip(entry)
		case entry.IsDir():
			if c.isModule(name) {
				c.note(name, "is a separate module; skipped")
				return fs.SkipDir
			}
			return nil
		case name == "go.work", name == "go.work.sum":
			c.note(name, "is only for this machine; skipped")
			return nil
		}
		if names = append(names, name); len(names) > maxFiles {
			return fmt.Errorf("it contains more than %d files, too many for a function", maxFiles)
		}
		return nil
	})
	return names, err
}

// isIgnored reports whether an ignore directive with this path in a go.mod ignores the file or
// directory name, as defined in https://go.dev/ref/mod#go-mod-file-ignore: a path that begins with
// ./ is relative to the module, and any other path matches at any depth.
func isIgnored(path, name string) bool {
	if below, ok := strings.CutPrefix(path, "./"); ok {
		return name == strings.TrimSuffix(below, "/")
	}
	path = strings.TrimSuffix(path, "/")
	return name == path || strings.HasSuffix(name, "/"+path)
}

func skip(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// directoryName returns the last element of the module's path without a major version suffix or,
// without a module path, the name of the directory.
func directoryName(dir string, files []handler.File) string {
	for _, file := range files {
		if file.Name != "go.mod" {
			continue
		}
		if prefix, _, ok := module.SplitPathVersion(modfile.ModulePath(file.Data)); ok && prefix != "" {
			return path.Base(prefix)
		}
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "function"
	}
	if name := filepath.Base(abs); name != string(filepath.Separator) {
		return name
	}
	return "function"
}
