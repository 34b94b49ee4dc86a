package input

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

// top is the path of a module's own directory, relative to the module.
const top = "."

// A packageReader reads what a package of a module is built from: its own files, and those
// of the packages that it imports from the module and from its vendor directory.
type packageReader struct {
	*collection
	mod           *modfile.File
	others        []string // files to add beside Go files
	needsModules  bool     // whether the package imports other modules
	needsPackages bool     // whether it imports other packages of the module
	importsItself bool     // whether its tests do, as those of another package
}

// readPackage returns the Function of the package in dir, which belongs to the module
// in the directory root. If only is not empty, it is the Function of this one file of
// the package.
//
// A package that imports nothing but the standard library is a source without a
// module, unless go.mod changes what its code means. Any other keeps its place in the
// module: it is in the same directory of the source.
func readPackage(root, dir, only string) (*Function, []string, error) {
	return collect(root, func(c *collection) (*Function, error) {
		return (&packageReader{collection: c}).read(dir, only)
	})
}

func (p *packageReader) read(dir, only string) (*Function, error) {
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
	return p.function(name, dir, rel, goMod)
}

// isAlone reports whether the package, which is rel within the module, is a source without a module.
// What the go command leaves aside cannot be anything else.
func (p *packageReader) isAlone(rel string) bool {
	return !p.needsModules && !p.needsPackages && (!p.importsItself && !p.changesMeaning() || ignoredElement(rel) != "")
}

// changesMeaning reports whether code means something else in the module than without one: before
// Go 1.22 the iterations of a loop share its variables, and godebug settings are of all versions.
func (p *packageReader) changesMeaning() bool {
	return len(p.mod.Godebug) > 0 || p.mod.Go != nil && version.Compare("go"+p.mod.Go.Version, "go1.22") < 0
}

// readGoMod returns the go.mod of the module of the package in dir, as it is.
func (p *packageReader) readGoMod(dir string) ([]byte, error) {
	goMod, err := p.root.ReadFile("go.mod")
	if err != nil {
		return nil, err
	}
	if p.mod, err = modfile.Parse("go.mod", goMod, nil); err != nil || p.mod.Module == nil {
		return nil, authorError(p.at("go.mod"), 1, 0, fmt.Sprintf("the go.mod of %s cannot be read: mend it, go mod tidy says what is wrong", dir))
	}
	return goMod, nil
}

// addFiles adds the files of the package in dir, which is rel within the module, and of the
// packages of the module that it imports, with what the go command needs beside go.mod.
func (p *packageReader) addFiles(dir, rel, only string) error {
	if err := p.addPackage(rel, only, true); err != nil {
		return err
	}
	if len(p.files) == 0 {
		return fmt.Errorf("%s holds no Go file", dir)
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

// function returns the Function of a package that needs its module, after all of its
// files were added. The package is in dir, which is rel within the module.
func (p *packageReader) function(name, dir, rel string, goMod []byte) (*Function, error) {
	if aside := ignoredElement(rel); aside != "" {
		return nil, fmt.Errorf("%s is below %s, which the go command leaves aside, so it can import the standard library alone: move it out of there", dir, aside)
	}
	if rel != top && p.visited[top] && handler.Inspect(p.inModule("")).Dir == top && handler.Inspect(p.inModule(top)).Dir == rel {
		return nil, authorError(p.at("go.mod"), 1, 0, fmt.Sprintf("the package at the top of the module, which %s imports, declares Handler as well, and would be taken for the Function: rename its Handler", dir))
	}
	if !p.needsModules {
		var err error
		if goMod, err = minimalGoMod(p.mod); err != nil {
			return nil, err
		}
	}
	f, err := newDirectory(name, p.dir, append(p.files, handler.File{Name: "go.mod", Line: 1, Data: goMod}))
	if err == nil {
		f.within = rel
	}
	return f, err
}

// ignoredElement returns the element of a path in a module for which the go command
// finds no package there, such as testdata. It is empty if there is none.
func ignoredElement(rel string) string {
	for i, element := range strings.Split(rel, "/") {
		if element == "testdata" || i == 0 && element == "vendor" || element != top && strings.ContainsAny(element[:1], "._") {
			return element
		}
	}
	return ""
}

// inModule returns a go.mod and the files, without those of one directory.
func (p *packageReader) inModule(without string) []handler.File {
	files := []handler.File{{Name: "go.mod", Data: []byte("module " + modfile.AutoQuote(p.mod.Module.Mod.Path) + "\n")}}
	for _, f := range p.files {
		if path.Dir(f.Name) != without {
			files = append(files, f)
		}
	}
	return files
}

// minimalGoMod returns a go.mod with the path, the Go version and the settings of
// mod, and without its requirements.
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

// isHostLike reports whether an import path begins with a host name, as the paths of
// most modules do. Those of Goless do not count.
func isHostLike(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".") && first != "goless.io"
}
