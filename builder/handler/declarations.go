package handler

import (
	"go/ast"
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
