package program

import (
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"goless.io/builder/handler"
	"goless.io/builder/internal/sandbox"
)

// MaxRequirements is how much of the go.mod or the go.sum of a program is read after the go
// command has changed it, in bytes. The largest have some hundred KiB.
const MaxRequirements = 16 << 20

// Requirement returns the line of the author's go.mod that requires the module
// with this path, or replaces another one by it. If there is none, because another
// module requires it, that is the first line.
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

// Required returns the module that the author requires for a package: of several
// whose path begins the package's, the one with the longest.
func (p *Program) Required(pkg string) (found module.Version, ok bool) {
	mod := p.Source.GoMod
	if mod == nil {
		return found, false
	}
	for _, r := range mod.Require {
		if (pkg == r.Mod.Path || strings.HasPrefix(pkg, r.Mod.Path+"/")) && len(r.Mod.Path) > len(found.Path) {
			found = r.Mod
		}
	}
	return found, found.Path != ""
}

// Selected returns the versions of modules that the go.mod of the whole program requires, by
// their paths. The go command may have changed them since Write.
func (p *Program) Selected() map[string]string {
	data, err := sandbox.ReadResult(p.Dir, "go.mod", MaxRequirements)
	if err != nil {
		return nil
	}
	mod, err := modfile.ParseLax("go.mod", data, nil)
	if err != nil {
		return nil
	}
	versions := make(map[string]string)
	for _, r := range mod.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return versions
}
