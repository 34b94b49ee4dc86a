package source

import (
	"errors"
	"fmt"
	"go/version"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
)

// top is the path of the module's root directory, relative to the module.
const top = "."

// A packageReader reads the files from which a package of a module is built: its own, and those of
// the packages that it imports from the module and from its vendor directory.
type packageReader struct {
	*collection
	mod           *modfile.File
	others        []string // files to add besides Go files
	needsModules  bool     // the package imports other modules
	needsPackages bool     // the package imports other packages of the module
	importsItself bool     // an external test of the package imports it
}

// readPackage returns the Source for the package in dir, which belongs to the module in the
// directory root. If only is not empty, the source contains only this file of the package.
//
// A package that imports only the standard library becomes a source without a module, unless go.mod
// changes the meaning of its code. Any other package stays in the same directory relative to its
// module.
func readPackage(root, dir, only string) (*Source, []string, error) {
	return collect(root, func(c *collection) (*Source, error) {
		return (&packageReader{collection: c}).read(dir, only)
	})
}

func (p *packageReader) read(dir, only string) (*Source, error) {
	rel, err := relative(p.dir, dir)
	if err != nil {
		return nil, err
	}
	goMod, err := p.readGoMod(dir)
	if err != nil {
		return nil, err
	}
	if err := p.addFiles(dir, rel, only); err != nil {
		return nil, err
	}
	name := directoryName(dir, nil)
	if only != "" {
		name = functionName(only)
	}
	if p.isAlone(rel) {
		for i := range p.files {
			p.files[i].Name = strings.TrimPrefix(p.files[i].Name, rel+"/")
		}
		return newDirectory(name, dir, p.files)
	}
	return p.source(name, dir, rel, goMod)
}

// isAlone reports whether the package, at rel in the module, becomes a source without a module. A
// package in a directory that the go command ignores cannot become anything else.
func (p *packageReader) isAlone(rel string) bool {
	return !p.needsModules && !p.needsPackages && (!p.importsItself && !p.changesMeaning() || ignoredElement(rel) != "")
}

// changesMeaning reports whether code has a different meaning in the module than without it: before
// Go 1.22, the iterations of a loop share its variables, and godebug settings apply to all
// versions.
func (p *packageReader) changesMeaning() bool {
	return len(p.mod.Godebug) > 0 || p.mod.Go != nil && version.Compare("go"+p.mod.Go.Version, "go1.22") < 0
}

// readGoMod parses the go.mod of the module of the package in dir and returns its content.
func (p *packageReader) readGoMod(dir string) ([]byte, error) {
	goMod, err := p.root.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	if p.mod, err = modfile.Parse("go.mod", goMod, nil); err != nil || p.mod.Module == nil {
		return nil, handler.NewError(p.at("go.mod"), 1, 0, fmt.Sprintf("cannot parse the go.mod of %s; run go mod tidy for details", dir))
	}
	return goMod, nil
}

// addFiles adds the files of the package in dir, at rel in the module, those of the module's
// packages that it imports, and the files that the go command needs besides go.mod.
func (p *packageReader) addFiles(dir, rel, only string) error {
	if err := p.addPackage(rel, only, true); err != nil {
		return err
	}
	if len(p.files) == 0 {
		return fmt.Errorf("%s contains no Go file", dir)
	}
	if p.needsModules {
		for _, name := range []string{"go.sum", "vendor/modules.txt"} {
			if _, err := p.root.Stat(filepath.FromSlash(name)); err == nil {
				p.others = append(p.others, name)
			}
		}
	}
	return p.addAll(p.others)
}

// source returns the Source for a package that needs its module, after all files were added.
// The package is in dir, at rel in the module.
func (p *packageReader) source(name, dir, rel string, goMod []byte) (*Source, error) {
	if aside := ignoredElement(rel); aside != "" {
		return nil, fmt.Errorf("%s is below %s, which the go command ignores, so it can import only the standard library; move it", dir, aside)
	}
	if rel != top && p.visited[top] && handler.Inspect(p.inModule("")).Dir == top && handler.Inspect(p.inModule(top)).Dir == rel {
		return nil, handler.NewError(p.at("go.mod"), 1, 0, fmt.Sprintf("the package at the root of the module, which %s imports, also declares Handler and would be used as the Function; rename its Handler", dir))
	}
	if !p.needsModules {
		var err error
		if goMod, err = minimalGoMod(p.mod); err != nil {
			return nil, err
		}
	}
	f, err := newDirectory(name, p.dir, append(p.files, handler.File{Name: "go.mod", Line: 1, Data: goMod}))
	if err == nil {
		f.Within = rel
	}
	return f, err
}

// ignoredElement returns the element of a path in a module because of which the go command ignores
// the package, such as testdata, or "" if there is none.
func ignoredElement(rel string) string {
	for i, element := range strings.Split(rel, "/") {
		if element == "testdata" || i == 0 && element == "vendor" || element != top && strings.ContainsAny(element[:1], "._") {
			return element
		}
	}
	return ""
}

// inModule returns a go.mod and the files, except those in one directory.
func (p *packageReader) inModule(without string) []handler.File {
	files := []handler.File{{Name: "go.mod", Data: []byte("module " + modfile.AutoQuote(p.mod.Module.Mod.Path) + "\n")}}
	for _, f := range p.files {
		if path.Dir(f.Name) != without {
			files = append(files, f)
		}
	}
	return files
}

// minimalGoMod returns a go.mod with the path, the Go version and the godebug settings of mod, but
// without its requirements.
func minimalGoMod(mod *modfile.File) ([]byte, error) {
	alone := new(modfile.File)
	if err := alone.AddModuleStmt(mod.Module.Mod.Path); err != nil {
		return nil, err
	}
	if mod.Go != nil {
		if err := alone.AddGoStmt(mod.Go.Version); err != nil {
			return nil, err
		}
	}
	for _, g := range mod.Godebug {
		if err := alone.AddGodebug(g.Key, g.Value); err != nil {
			return nil, err
		}
	}
	return alone.Format()
}

// addPackage adds the package in a directory of the module and the packages that it imports. With
// tests, it also adds the package's tests. If only is not empty, it adds only this file of the
// package.
func (p *packageReader) addPackage(dir, only string, tests bool) error {
	if p.visited[dir] {
		return nil
	}
	p.visited[dir] = true
	entries, err := os.ReadDir(p.at(dir))
	if errors.Is(err, fs.ErrNotExist) && !tests {
		return nil // reported when the import is checked
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

// isBuildFile reports whether the go command may compile a file with this name together with Go
// files.
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

// addGo adds a Go file and the packages that it imports on the architectures on which functions
// run. Errors in the file are reported when the source is checked.
func (p *packageReader) addGo(dir, name string) error {
	data, err := p.add(path.Join(dir, name))
	if err != nil {
		return err
	}
	// A file named like a test would not be part of the package.
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
		p.importsItself = p.importsItself || below == by
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

// isHostLike reports whether an import path begins with a host name, like the paths of most
// modules. It reports false for packages of Goless.
func isHostLike(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".") && first != "goless.io"
}
