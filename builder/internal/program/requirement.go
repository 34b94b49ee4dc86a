package program

import (
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
	"goless.io/builder/internal/sandbox"
)

// MaxRequirements limits the size of a program's go.mod or go.sum when it is read after the go
// command has changed it, in bytes. The largest have several hundred KiB.
const MaxRequirements = 16 << 20

// Requirement returns the position in the author's go.mod that requires the module with this path,
// or replaces another module with it. If the go.mod does not mention the module, because only
// another module requires it, Requirement returns the first line.
func (p *Program) Requirement(path string) handler.Import {
	at := handler.Import{File: "go.mod", Path: path, Line: 1, Column: 1}
	mod := p.Source.GoMod
	if mod == nil {
		return at
	}
	for _, r := range mod.Replace {
		if r.New.Path == path {
			at.Line, at.Column = r.Syntax.Start.Line, r.Syntax.Start.LineRune
		}
	}
	for _, r := range mod.Require {
		if r.Mod.Path == path {
			at.Line, at.Column = r.Syntax.Start.Line, r.Syntax.Start.LineRune
		}
	}
	return at
}

// Required returns the module that the author requires for a package. If several match, it returns
// the one with the longest path.
func (p *Program) Required(pkg string) (found module.Version, ok bool) {
	if p.Source.GoMod == nil {
		return found, false
	}
	return requiredFor(p.Source.GoMod, pkg)
}

// requiredFor returns the module that mod requires for a package, like Required.
func requiredFor(mod *modfile.File, pkg string) (found module.Version, ok bool) {
	for _, r := range mod.Require {
		if (pkg == r.Mod.Path || strings.HasPrefix(pkg, r.Mod.Path+"/")) && len(r.Mod.Path) > len(found.Path) {
			found = r.Mod
		}
	}
	return found, found.Path != ""
}

// An Override is a module version in the program that differs, because of the author's go.mod, from
// the version that the runtime requires.
type Override struct {
	// Runtime is the version that the runtime requires.
	Runtime module.Version

	// Used is the version in the program.
	Used module.Version

	// Replaced means that the author's go.mod replaces Runtime with Used.
	Replaced bool

	// At is the position in the author's go.mod.
	At handler.Import
}

// Overrides returns the overrides of the author's go.mod. If the go.mod replaces modules of the
// runtime, Overrides returns only these replacements, because a newer version that the go.mod
// requires rarely causes problems.
func (p *Program) Overrides() []Override {
	if p.Source.GoMod == nil || len(p.Source.GoMod.Require) == 0 {
		return nil
	}
	mod, err := runtimeMod()
	if err != nil {
		return nil
	}
	var replaced, newer []Override
	selected := p.Selected()
	for _, r := range mod.Require {
		o := Override{Runtime: r.Mod, Used: r.Mod}
		if version, ok := selected[r.Mod.Path]; ok {
			o.Used.Version = version
		}
		if by := replacement(p.Source.GoMod, o.Used); by != nil {
			o.Used, o.Replaced = by.New, true
			o.At = handler.Import{File: "go.mod", Path: r.Mod.Path, Line: by.Syntax.Start.Line, Column: by.Syntax.Start.LineRune}
			replaced = append(replaced, o)
		} else if o.Used != o.Runtime {
			o.At = p.Requirement(r.Mod.Path)
			newer = append(newer, o)
		}
	}
	if len(replaced) > 0 {
		return replaced
	}
	return newer
}

// replacement returns the replace directive for a module in a go.mod, or nil.
func replacement(mod *modfile.File, m module.Version) *modfile.Replace {
	i := slices.IndexFunc(mod.Replace, func(r *modfile.Replace) bool {
		return r.Old.Path == m.Path && (r.Old.Version == "" || r.Old.Version == m.Version)
	})
	if i < 0 {
		return nil
	}
	return mod.Replace[i]
}

// Gives reports whether the runtime, or a module that it requires, provides a package.
func Gives(pkg string) bool {
	mod, err := runtimeMod()
	if err != nil {
		return false
	}
	isIn := func(path string) bool { return pkg == path || strings.HasPrefix(pkg, path+"/") }
	return isIn(RuntimeModule) || slices.ContainsFunc(mod.Require, func(r *modfile.Require) bool { return isIn(r.Mod.Path) })
}

// Mod reads the go.mod of the whole program. The go command may have changed it since Write.
func (p *Program) Mod() (*modfile.File, error) {
	data, err := sandbox.ReadResult(p.Dir, "go.mod", MaxRequirements)
	if err != nil {
		return nil, err
	}
	return modfile.ParseLax("go.mod", data, nil)
}

// Selected returns the module versions in Mod, by path, or nil if Mod fails.
func (p *Program) Selected() map[string]string {
	mod, err := p.Mod()
	if err != nil {
		return nil
	}
	versions := make(map[string]string)
	for _, r := range mod.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}

// RuntimeModules returns the modules that the runtime's packages in the program import, in the
// versions that the runtime requires. It omits modules that the program replaces or has in a
// different version.
func (p *Program) RuntimeModules() (needed []module.Version) {
	mod, err := runtimeMod()
	if err != nil {
		return nil
	}
	imports := map[string][]string{} // by package
	for _, f := range txtar.Parse(runtimeArchive).Files {
		file, err := parser.ParseFile(token.NewFileSet(), f.Name, f.Data, parser.ImportsOnly)
		if path.Ext(f.Name) != ".go" || err != nil {
			continue
		}
		pkg := path.Join(RuntimeModule, path.Dir(f.Name))
		for _, spec := range file.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value) // parsed without errors
			imports[pkg] = append(imports[pkg], imported)
		}
	}
	next := []string{RuntimeModule}
	for _, i := range p.Source.Imports {
		next = append(next, i.Path)
	}
	selected := p.Selected()
	for seen := map[string]bool{}; len(next) > 0; next = next[1:] {
		pkg := next[0]
		if m, ok := requiredFor(mod, pkg); ok && !slices.Contains(needed, m) && selected[m.Path] == m.Version {
			needed = append(needed, m)
		}
		if !seen[pkg] {
			next = append(next, imports[pkg]...)
		}
		seen[pkg] = true
	}
	return needed
}
