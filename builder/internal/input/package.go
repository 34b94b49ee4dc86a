package input

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
)

// addPackage adds the package in a directory of the module, with all that it imports and,
// if tests is set, with its tests. If only is not empty, it adds this one file of the
// package.
func (p *packageReader) addPackage(dir, only string, tests bool) error {
	if p.visited[dir] {
		return nil
	}
	p.visited[dir] = true
	entries, err := os.ReadDir(p.at(dir))
	if errors.Is(err, fs.ErrNotExist) && !tests {
		return nil // whoever checks the import reports it
	} else if err != nil {
		return err
	}
	for _, entry := range entries {
		name := entry.Name()
		isTest := strings.HasSuffix(name, "_test.go")
		switch {
		case entry.IsDir() && name == "testdata" && tests && only == "":
			err = p.addTree(path.Join(dir, name))
		case only != "" && name != only, isTest && !tests, strings.HasPrefix(name, "."), strings.HasPrefix(name, "_"):
		case path.Ext(name) == ".go":
			err = p.addGo(dir, name)
		case isBuildFile(name):
			p.others = append(p.others, path.Join(dir, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isBuildFile reports whether the go command may compile a file with this name together with
// Go files.
func isBuildFile(name string) bool {
	switch path.Ext(name) {
	case ".s", ".S", ".sx", ".c", ".cc", ".cpp", ".cxx", ".m", ".h", ".hh", ".hpp", ".hxx", ".syso":
		return true
	}
	return false
}

// addTree adds all files of a directory.
func (p *packageReader) addTree(dir string) error {
	return fs.WalkDir(p.root.FS(), dir, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !entry.IsDir():
			p.others = append(p.others, name)
		case p.isModule(name):
			return fs.SkipDir
		}
		return nil
	})
}

// addGo adds a Go file and the packages that it imports on the architectures that functions
// run on. Whoever checks the source reports their mistakes.
func (p *packageReader) addGo(dir, name string) error {
	data, err := p.add(path.Join(dir, name))
	if err != nil {
		return err
	}
	// What is called like a test would be no part of the package.
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".go"), "_test") + ".go"
	for _, imported := range handler.Inspect([]handler.File{{Name: name, Data: data}}).Imports {
		if err := p.addImport(dir, imported.Path); err != nil {
			return err
		}
	}
	return nil
}

// addImport adds an imported package if it is in the module or vendored.
func (p *packageReader) addImport(by, imported string) error {
	module := p.mod.Module.Mod.Path
	if below, ok := strings.CutPrefix(imported, module+"/"); ok && !p.requires(imported) {
		p.needsPackages = p.needsPackages || below != by
		return p.addPackage(below, "", false)
	}
	switch {
	case imported == module && by != top:
		p.needsPackages = true
		return p.addPackage(top, "", false)
	case !p.requires(imported) && !isHostLike(imported):
		return nil
	}
	p.needsModules = true
	return p.addPackage(path.Join("vendor", imported), "", false)
}

// requires reports whether the package may be in a module that the go.mod requires.
func (p *packageReader) requires(imported string) bool {
	return slices.ContainsFunc(p.mod.Require, func(r *modfile.Require) bool {
		return imported == r.Mod.Path || strings.HasPrefix(imported, r.Mod.Path+"/")
	})
}

// isHostLike reports whether an import path begins with a host name, as the paths of
// most modules do. Those of Goless do not count.
func isHostLike(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".") && first != "goless.io"
}
