package input

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
)

// packageFiles are what a package of a module is built from: its own files, and those
// of the packages that it imports from the module and from its vendor directory.
type packageFiles struct {
	dir           string // of the module
	root          *os.Root
	mod           *modfile.File
	files         []handler.File
	embedded      embedding
	notes         []string        // about what was left out
	added         map[string]bool // files and directories that were visited
	needsModules  bool            // whether it imports other modules
	needsPackages bool            // whether it imports other packages of the module
}

// readPackage returns the Function of the package in dir, which belongs to the module
// in the directory root. If only is not empty, it is the Function of this one file of
// the package.
//
// A package that imports nothing but the standard library is a source without a
// module. Any other keeps its place in the module: it is in the same directory of the
// source.
func readPackage(root, dir, only string) (*Function, []string, error) {
	opened, err := os.OpenRoot(root)
	if err != nil {
		return nil, nil, err
	}
	defer opened.Close() //nolint:errcheck // it was only read
	p := &packageFiles{dir: root, root: opened, added: map[string]bool{}, embedded: embedding{}}
	f, err := p.readPackage(dir, only)
	return f, p.notes, err
}

func (p *packageFiles) readPackage(dir, only string) (*Function, error) {
	rel, err := relative(p.dir, dir)
	if err != nil {
		return nil, err
	}
	goMod, err := p.read("go.mod")
	if err != nil {
		return nil, err
	}
	if p.mod, err = modfile.ParseLax("go.mod", goMod.Data, nil); err != nil || p.mod.Module == nil {
		return nil, authorError(p.at("go.mod"), 1, 0, fmt.Sprintf("the go.mod of %s cannot be read: mend it, go mod tidy says what is wrong", dir))
	}
	if err := p.add(rel, only, true); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(p.files, func(f handler.File) bool { return path.Ext(f.Name) == ".go" }) {
		return nil, fmt.Errorf("%s holds no Go file", dir)
	}
	p.notes = append(p.notes, p.embedded.openNotes(p.dir, p.files)...)
	name := directoryName(dir, nil)
	if only != "" {
		name = functionName(only)
	}
	if !p.needsModules && !p.needsPackages {
		for i := range p.files {
			p.files[i].Name = strings.TrimPrefix(p.files[i].Name, rel+"/")
		}
		return newDirectory(name, dir, p.files)
	}
	return p.function(name, dir, rel, goMod)
}

// function returns the Function of a package that needs its module, after all of its
// files were added. The package is in dir, which is rel within the module.
func (p *packageFiles) function(name, dir, rel string, goMod handler.File) (*Function, error) {
	if aside := ignoredElement(rel); aside != "" {
		return nil, fmt.Errorf("%s is below %s, which the go command leaves aside, so it can import the standard library alone: move it out of there", dir, aside)
	}
	if rel != top && p.added[top] && handler.Inspect(p.files).Dir == top && handler.Inspect(p.below()).Dir == rel {
		return nil, authorError(p.at("go.mod"), 1, 0, fmt.Sprintf("the package at the top of the module, which %s imports, declares Handler as well, and would be taken for the Function: rename its Handler", dir))
	}
	if err := p.addModule(goMod); err != nil {
		return nil, err
	}
	f, err := newDirectory(name, p.dir, p.files)
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

// top is the path of a module's own directory, relative to the module.
const top = "."

// below returns a go.mod and the files that are not at the top of the module.
func (p *packageFiles) below() []handler.File {
	files := []handler.File{{Name: "go.mod", Data: []byte("module " + modfile.AutoQuote(p.mod.Module.Mod.Path) + "\n")}}
	for _, f := range p.files {
		if path.Dir(f.Name) != top {
			files = append(files, f)
		}
	}
	return files
}

// at returns the path of a file of the module.
func (p *packageFiles) at(name string) string {
	return inDir(p.dir, name)
}

func (p *packageFiles) read(name string) (handler.File, error) {
	data, err := p.root.ReadFile(filepath.FromSlash(name))
	return handler.File{Name: name, Line: 1, Data: data}, err
}

// addModule adds go.mod and go.sum. If the package needs no other module, its go.mod
// requires and replaces none, whatever the rest of the repository needs.
func (p *packageFiles) addModule(goMod handler.File) error {
	if !p.needsModules {
		var err error
		goMod.Data, err = minimalGoMod(p.mod)
		p.files = append(p.files, goMod)
		return err
	}
	p.files = append(p.files, goMod)
	for _, name := range []string{"go.sum", "vendor/modules.txt"} {
		file, err := p.read(name)
		if err == nil {
			p.files = append(p.files, file)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
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
