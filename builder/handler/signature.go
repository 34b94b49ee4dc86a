package handler

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
)

// checkHandler looks for the declaration of the handler at the top level, and
// says what is wrong with the nearest thing when it is not there.
func (s *source) checkHandler() {
	var found token.Pos
	for _, decl := range s.file.Decls {
		pos := s.declaration(decl)
		switch {
		case !pos.IsValid():
		case found.IsValid():
			s.report(pos, fmt.Sprintf("Handler is declared twice, the first is at %s", s.place(found)))
		default:
			found = pos
		}
	}
	if !found.IsValid() {
		s.reportMissing()
	}
}

// declaration returns where decl declares the name Handler, after having
// reported what is wrong with it, or token.NoPos when it declares others.
func (s *source) declaration(decl ast.Decl) token.Pos {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil && d.Name.Name == handlerName {
			s.checkFunc(d)
			return d.Pos()
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if id := declares(spec); id != nil {
				s.report(id.Pos(), fmt.Sprintf("Handler is declared with %s, must be a function: %s", d.Tok, Signature))
				return id.Pos()
			}
		}
	}
	return token.NoPos
}

// declares returns the identifier Handler that a type, var or const declares.
func declares(spec ast.Spec) *ast.Ident {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		if spec.Name.Name == handlerName {
			return spec.Name
		}
	case *ast.ValueSpec:
		for _, id := range spec.Names {
			if id.Name == handlerName {
				return id
			}
		}
	}
	return nil
}

func (s *source) checkFunc(fn *ast.FuncDecl) {
	switch {
	case fn.Type.TypeParams != nil:
		s.report(fn.Pos(), "Handler must not have type parameters, must be: "+Signature)
	case !s.matches(fn.Type) && namesHTTP(fn):
		s.report(fn.Pos(), `Handler needs the package http, add: import "net/http"`)
	case !s.matches(fn.Type):
		s.report(fn.Pos(), "wrong signature for Handler, must be: "+Signature)
	case fn.Body == nil:
		s.report(fn.Pos(), "Handler has no body, add one in braces")
	}
}

// reportMissing points at what was probably meant: a method of that name, or the
// first function that would be right under another name.
func (s *source) reportMissing() {
	for _, decl := range s.file.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		switch {
		case !ok:
		case fn.Recv != nil && fn.Name.Name == handlerName:
			s.report(fn.Pos(), "Handler is a method, must be a function: "+Signature)
			return
		case fn.Recv == nil && fn.Type.TypeParams == nil && s.matches(fn.Type):
			s.report(fn.Pos(), fmt.Sprintf("there is no Handler, rename %s to Handler", fn.Name.Name))
			return
		}
	}
	s.report(s.file.Name.Pos(), "there is no Handler, add: "+Signature)
}

// matches reports whether fn takes exactly what an http.HandlerFunc takes.
func (s *source) matches(fn *ast.FuncType) bool {
	var params []ast.Expr
	for _, field := range fn.Params.List {
		for range max(1, len(field.Names)) {
			params = append(params, ast.Unparen(field.Type))
		}
	}
	if len(params) != 2 || fn.Results.NumFields() > 0 {
		return false
	}
	request, ok := params[1].(*ast.StarExpr)
	return ok && s.isHTTP(params[0], "ResponseWriter") && s.isHTTP(request.X, "Request")
}

// isHTTP reports whether expr is the named type of net/http.
func (s *source) isHTTP(expr ast.Expr, typeName string) bool {
	switch expr := ast.Unparen(expr).(type) {
	case *ast.Ident:
		return slices.Contains(s.http, ".") && expr.Name == typeName
	case *ast.SelectorExpr:
		pkg, ok := expr.X.(*ast.Ident)
		return ok && slices.Contains(s.http, pkg.Name) && expr.Sel.Name == typeName
	}
	return false
}

// namesHTTP reports whether the signature of fn would be right if the file
// imported net/http.
func namesHTTP(fn *ast.FuncDecl) bool {
	imported := source{http: []string{"http"}}
	return imported.matches(fn.Type)
}
