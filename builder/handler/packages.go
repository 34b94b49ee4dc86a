package handler

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// pkg is a package. A file that is built on some architectures belongs to it on all of them.
type pkg struct {
	dir      string
	files    []*file
	declared map[string]bool // names, except methods
}

// checkPackages checks what depends on more than one file.
func (c *checker) checkPackages() {
	known := c.choose()
	var top *pkg
	for _, p := range c.packages() {
		c.checkClauses(p)
		c.checkTests(p)
		if p.dir == c.dir {
			top = p
		}
	}
	if known {
		c.checkRoot(top)
	}
}

// packages returns the packages in source order.
func (c *checker) packages() []*pkg {
	var all []*pkg
	byDir := make(map[string]*pkg)
	for _, f := range c.files {
		if !f.built {
			continue
		}
		p := byDir[f.dir]
		if p == nil {
			p = &pkg{dir: f.dir}
			byDir[f.dir] = p
			all = append(all, p)
		}
		p.files = append(p.files, f)
	}
	return all
}

// checkClauses rejects different package names in one directory, and packages that cannot be part
// of the program.
func (c *checker) checkClauses(p *pkg) {
	first := p.files[0]
	name := first.syntax.Name
	for _, f := range p.files[1:] {
		if other := f.syntax.Name; other.Name != name.Name {
			c.report(f, other.Pos(), fmt.Sprintf("package %s differs from the package of %s, %s; use one name per directory", other.Name, first.place(name.Pos()), name.Name))
		}
	}
	switch {
	case p.dir == c.dir:
		c.checkRootClause(first, name)
	case p.dir != root && c.goMod == nil:
		c.report(first, name.Pos(), "a package in a subdirectory needs a go.mod; add one with the line: module example.com/function")
	}
}

// checkTests rejects tests in the directory of a package that belong neither to it nor to its
// external test package, because the go command compiles nothing in such a directory. Other errors
// in tests are only found when they run.
func (c *checker) checkTests(p *pkg) {
	first := p.files[0]
	name := first.syntax.Name
	for _, f := range c.files {
		if f.dir != p.dir || Ignored(f.Name) || !strings.HasSuffix(f.base, "_test.go") {
			continue
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), "", f.Data, parser.PackageClauseOnly|parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		other := syntax.Name.Name
		if excluding, err := f.excluding(); err == nil && len(excluding) < len(architectures) && other != "documentation" && strings.TrimSuffix(other, "_test") != name.Name {
			c.reportAt(f, int(syntax.Name.Pos()-syntax.FileStart), fmt.Sprintf("package %s does not match the package of %s, %s; write package %s_test, or package %s", other, first.place(name.Pos()), name.Name, name.Name, name.Name))
		}
	}
}

func (c *checker) checkRootClause(f *file, name *ast.Ident) {
	switch {
	case name.Name == "main":
		c.report(f, name.Pos(), "package main cannot be imported; use another name: package handlers")
	case name.Name == "_":
		c.report(f, name.Pos(), "package _ cannot be imported; use another name: package handlers")
	case name.Name == "documentation":
		c.report(f, name.Pos(), "package documentation is never compiled; use another name: package handlers")
	case strings.HasSuffix(name.Name, "_test"):
		c.report(f, name.Pos(), fmt.Sprintf("package %s is for tests; use another name: package handlers", name.Name))
	}
}

// choose sets the directory of the handler's package: the top of the archive, unless it declares no
// Handler and another package of the module does. That package must not be imported by other
// packages, because those are parts of the function. choose reports whether the package can be
// checked: all of its files can be parsed, and it is the only candidate.
func (c *checker) choose() bool {
	c.dir = root
	if c.mod == nil || c.unreadable(root) || slices.ContainsFunc(c.files, (*file).declaresAtTop) {
		return !c.unreadable(root)
	}
	found := c.entry(c.declaring())
	if len(found) == 0 {
		return !slices.ContainsFunc(c.files, (*file).unreadable)
	}
	c.dir = found[0].dir
	for _, other := range found[1:] {
		c.report(other, other.handler().Pos(), fmt.Sprintf("Handler is also in %s; pass the directory of one package, or leave out the other", c.dir))
	}
	return len(found) == 1 && !c.unreadable(c.dir)
}

// unreadable reports whether a directory contains a Go file that cannot be parsed.
func (c *checker) unreadable(dir string) bool {
	return slices.ContainsFunc(c.files, func(f *file) bool { return f.dir == dir && f.unreadable() })
}

func (f *file) unreadable() bool { return f.isGo && f.syntax == nil }

// declaresAtTop reports whether the file is in the top package and declares Handler as anything but
// a type.
func (f *file) declaresAtTop() bool {
	if f.dir != root || !f.built {
		return false
	}
	for decl, name := range declared(f.syntax) {
		general, ok := decl.(*ast.GenDecl)
		isType := ok && general.Tok == token.TYPE
		if name.Name == handlerShape.name && !isType {
			return true
		}
	}
	return false
}

// declaring returns the first file that declares Handler in each package.
func (c *checker) declaring() (found []*file) {
	for _, f := range c.files {
		if f.built && f.handler() != nil && !slices.Contains(dirs(found), f.dir) {
			found = append(found, f)
		}
	}
	return found
}

func dirs(files []*file) (all []string) {
	for _, f := range files {
		all = append(all, f.dir)
	}
	return all
}

// entry returns those of files whose package may be the handler's package:
//
//   - No other package imports it.
//   - If possible, tests of other packages do not import it either. Tests import
//     packages that they need, such as fakes.
//   - If possible, it is not a program and its Handler has the right signature.
func (c *checker) entry(files []*file) []*file {
	imported, byTests := c.importedDirs()
	files = slices.DeleteFunc(files, func(f *file) bool { return imported[f.dir] })
	if untested := slices.DeleteFunc(slices.Clone(files), func(f *file) bool { return byTests[f.dir] }); len(untested) > 0 {
		files = untested
	}
	packages := c.packages()
	right := slices.DeleteFunc(slices.Clone(files), func(f *file) bool {
		i := slices.IndexFunc(packages, func(p *pkg) bool { return p.dir == f.dir })
		return f.syntax.Name.Name == "main" || i < 0 || !packages[i].handles(f)
	})
	if len(right) > 0 {
		return right
	}
	return files
}

// importedDirs returns the directories of packages that other packages import, and of those that
// the tests of other packages import. Imports of programs are ignored: a program may serve the
// handler on the author's machine.
func (c *checker) importedDirs() (imported, byTests map[string]bool) {
	imported, byTests = map[string]bool{}, map[string]bool{}
	for _, f := range c.files {
		syntax, dirs := f.syntax, imported
		if !Ignored(f.Name) && strings.HasSuffix(f.base, "_test.go") {
			dirs = byTests
			syntax, _ = parser.ParseFile(token.NewFileSet(), "", f.Data, parser.ImportsOnly|parser.SkipObjectResolution) // as far as it can be parsed
		} else if !f.built || syntax.Name.Name == "main" {
			continue
		}
		if syntax == nil {
			continue
		}
		for _, spec := range syntax.Imports {
			path, _ := strconv.Unquote(spec.Path.Value) // the parser accepted it
			if dir, ok := strings.CutPrefix(path, c.modulePath()+"/"); ok && dir != f.dir {
				dirs[dir] = true
			}
		}
	}
	return imported, byTests
}

// handles reports whether the Handler that f declares has the right signature.
func (p *pkg) handles(f *file) bool {
	p.declare()
	fn := f.handler()
	return fn.Type.TypeParams == nil && p.matches(f, fn, handlerShape)
}
