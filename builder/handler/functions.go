package handler

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// A shape is a function that the runtime calls.
type shape struct {
	name      string
	signature string
	params    []string
	results   []string

	// needs is the package that the signature names.
	needs string
}

var handlerShape = shape{
	name: "Handler", signature: Signature, needs: "net/http",
	params: []string{responseWriter, "*" + request},
}

// hookShapes are in the order in which hooks are listed.
var hookShapes = []shape{hookShape("Start"), hookShape("Stop"), hookShape("Ready")}

func hookShape(name string) shape {
	return shape{
		name: name, signature: "func " + name + "(context.Context) error", needs: "context",
		params: []string{contextType}, results: []string{errorType},
	}
}

// checkRoot looks for what the runtime calls in the root package, which is nil
// when no file belongs to it.
func (s *source) checkRoot(p *pkg, arch int) {
	if p == nil {
		s.reportNoRoot()
		return
	}
	p.declare()
	found := false
	hooks := make(map[string]bool)
	for _, f := range p.files {
		for decl, name := range declared(f.syntax) {
			fn, isFunc := decl.(*ast.FuncDecl)
			hook := slices.IndexFunc(hookShapes, func(h shape) bool { return h.name == name.Name })
			switch {
			case name.Name == handlerShape.name && isFunc:
				found = true
				s.checkFunc(p, f, fn, handlerShape, "")
			case name.Name == handlerShape.name:
				found = true
				s.report(f, name.Pos(), fmt.Sprintf("Handler is declared with %s, must be a function: %s", decl.(*ast.GenDecl).Tok, Signature))
			case hook >= 0 && isFunc:
				hooks[name.Name] = true
				s.checkFunc(p, f, fn, hookShapes[hook], ", or use another name")
			}
		}
	}
	if !found {
		s.reportMissing(p)
	}
	for _, h := range hookShapes {
		if hooks[h.name] {
			s.hooks[arch] = append(s.hooks[arch], h.name)
		}
	}
}

func (s *source) checkFunc(p *pkg, f *file, fn *ast.FuncDecl, want shape, or string) {
	switch {
	case fn.Type.TypeParams != nil:
		s.report(f, fn.Pos(), fmt.Sprintf("%s must not have type parameters, must be: %s%s", want.name, want.signature, or))
	case !p.matches(f, fn, want) && p.matches(imported(f, want.needs), fn, want):
		s.report(f, fn.Pos(), fmt.Sprintf("%s needs the package %s, add: import %q", want.name, shortName(want.needs), want.needs))
	case !p.matches(f, fn, want):
		s.report(f, fn.Pos(), fmt.Sprintf("wrong signature for %s, must be: %s%s", want.name, want.signature, or))
	case fn.Body == nil:
		s.report(f, fn.Pos(), want.name+" has no body, add one in braces")
	}
}

// imported returns a file that knows what f does and path besides.
func imported(f *file, path string) *file {
	return &file{names: map[string]string{shortName(path): path}, dots: f.dots}
}

// matches reports whether fn has exactly the parameters and results of a shape.
func (p *pkg) matches(f *file, fn *ast.FuncDecl, want shape) bool {
	return p.are(f, fn.Type.Params, want.params) && p.are(f, fn.Type.Results, want.results)
}

// reportMissing points at what was probably meant: a method of that name, the
// first function that would be right under another name, or a file that is not
// built.
func (s *source) reportMissing(p *pkg) {
	for _, f := range p.files {
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok:
			case fn.Recv != nil && fn.Name.Name == handlerShape.name:
				s.report(f, fn.Pos(), "Handler is a method, must be a function: "+Signature)
				return
			case fn.Recv == nil && fn.Type.TypeParams == nil && p.matches(f, fn, handlerShape):
				s.report(f, fn.Pos(), fmt.Sprintf("there is no Handler, rename %s to Handler", fn.Name.Name))
				return
			}
		}
	}
	if s.reportElsewhere() {
		return
	}
	first := p.files[0]
	s.report(first, first.syntax.Name.Pos(), "there is no Handler, add: "+Signature)
}

// reportElsewhere reports a Handler in a file that does not belong to the root
// package, if there is one.
func (s *source) reportElsewhere() bool {
	for _, f := range s.files {
		fn := f.handler()
		switch {
		case fn == nil:
			continue
		case f.dir != root:
			s.report(f, fn.Pos(), "Handler must be in the package at the top of the archive, move it there")
		default:
			s.report(f, fn.Pos(), "Handler is in a file that is not built, because of its name or a build constraint: functions are built for linux, on "+strings.Join(architectures[:], " and "))
		}
		return true
	}
	return false
}

// handler returns the function Handler of a file, whatever it looks like, or nil.
func (f *file) handler() ast.Decl {
	if f.syntax == nil {
		return nil
	}
	for decl, name := range declared(f.syntax) {
		if _, ok := decl.(*ast.FuncDecl); ok && name.Name == handlerShape.name {
			return decl
		}
	}
	return nil
}

// reportNoRoot says that nothing is compiled at the top of the archive.
func (s *source) reportNoRoot() {
	if !s.reportElsewhere() {
		s.reportAt(s.files[0], 0, "no Go file at the top of the archive is built, add handler.go with "+Signature)
	}
}
