package handler

import (
	"fmt"
	"go/ast"
	"go/token"
	"iter"
)

// declared yields what a file declares in its package, methods aside, and the
// declaration that does.
func declared(syntax *ast.File) iter.Seq2[ast.Decl, *ast.Ident] {
	return func(yield func(ast.Decl, *ast.Ident) bool) {
		for _, decl := range syntax.Decls {
			for _, name := range names(decl) {
				if !yield(decl, name) {
					return
				}
			}
		}
	}
}

func names(decl ast.Decl) (all []*ast.Ident) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			all = append(all, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				all = append(all, spec.Name)
			case *ast.ValueSpec:
				all = append(all, spec.Names...)
			}
		}
	}
	return all
}

// checkDuplicates reports what is declared a second time in a package.
func (s *source) checkDuplicates(p *pkg) {
	type place struct {
		file *file
		pos  token.Pos
	}
	first := make(map[string]place)
	for _, f := range p.files {
		declare := func(name string, pos token.Pos) {
			if before, twice := first[name]; twice {
				s.report(f, pos, fmt.Sprintf("%s is declared twice, the first is at %s", name, before.file.place(before.pos)))
				return
			}
			first[name] = place{f, pos}
		}
		for decl, name := range declared(f.syntax) {
			_, isFunc := decl.(*ast.FuncDecl)
			switch {
			case name.Name == "_", isFunc && name.Name == "init":
			case isFunc:
				declare(name.Name, decl.Pos())
			default:
				declare(name.Name, name.Pos())
			}
		}
		for _, decl := range f.syntax.Decls {
			if name := method(decl); name != "" {
				declare(name, decl.Pos())
			}
		}
	}
}

// method returns the name of a method with its type before it, or nothing when
// decl is none, or one that cannot be declared twice.
func method(decl ast.Decl) string {
	fn, ok := decl.(*ast.FuncDecl)
	if !ok || fn.Recv.NumFields() != 1 || fn.Name.Name == "_" {
		return ""
	}
	for expr := fn.Recv.List[0].Type; ; {
		switch e := expr.(type) {
		case *ast.Ident:
			return e.Name + "." + fn.Name.Name
		case *ast.StarExpr:
			expr = e.X
		case *ast.ParenExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		default:
			return ""
		}
	}
}
