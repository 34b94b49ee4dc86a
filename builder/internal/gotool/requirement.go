package gotool

import (
	"os"
	"path/filepath"
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
			mod, _ := modfile.Parse(goMod, f.Data, nil)
			return mod
		}
	}
	return nil
}

// requirement returns the place, in the author's go.mod, of what requires a
// module, or puts it in the place of another one. A module that is only required
// by others has the place of the first line.
func requirement(p *program.Program, path string) handler.Import {
	at := handler.Import{File: goMod, Path: path, Line: 1, Column: 1}
	mod := authorMod(p)
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

// goDirective returns the place of the go line of the author's go.mod.
func goDirective(p *program.Program) handler.Import {
	at := requirement(p, "")
	if mod := authorMod(p); mod != nil && mod.Go != nil {
		at.Line, at.Column = mod.Go.Syntax.Start.Line, mod.Go.Syntax.Start.LineRune
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

// selected returns the version of a module that the go.mod of the program
// requires by now, empty if none.
func selected(p *program.Program, path string) string {
	data, err := os.ReadFile(filepath.Join(p.Dir, goMod))
	if err != nil {
		return ""
	}
	mod, err := modfile.ParseLax(goMod, data, nil)
	if err != nil {
		return ""
	}
	for _, r := range mod.Require {
		if r.Mod.Path == path {
			return r.Mod.Version
		}
	}
	return ""
}
