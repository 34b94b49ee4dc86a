package gotool

import (
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

const (
	goMod = "go.mod"
	goSum = "go.sum"
)

// authorMod returns the author's go.mod, or nil.
func authorMod(p *program.Program) *modfile.File {
	for _, f := range p.Handler.Files {
		if f.Name == goMod {
			// It was parsed before, so there is no error to care for.
			mod, _ := modfile.ParseLax(goMod, f.Data, nil)
			return mod
		}
	}
	return nil
}

// requirement returns the place, in the author's go.mod, of what requires a
// module. A module that is only required by others has the place of the first
// line.
func requirement(p *program.Program, path string) handler.Import {
	at := handler.Import{File: goMod, Path: path, Line: 1, Column: 1}
	mod := authorMod(p)
	if mod == nil {
		return at
	}
	for _, r := range mod.Require {
		if r.Mod.Path == path {
			at.Line, at.Column = r.Syntax.Start.Line, r.Syntax.Start.LineRune
		}
	}
	return at
}

// required returns the module with the longest path that can have a package,
// among those that the author requires.
func required(p *program.Program, pkg string) (found module.Version, ok bool) {
	mod := authorMod(p)
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
