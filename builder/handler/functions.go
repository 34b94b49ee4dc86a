package handler

import (
	"fmt"
	"go/ast"
	"iter"
	"slices"
	"strings"
)

// shape is the signature of a function that the runtime calls.
type shape struct {
	name      string
	signature string
	params    []string
	results   []string

	// needs is the package that the signature refers to.
	needs string
}

var handlerShape = shape{
	name: "Handler", signature: Signature, needs: "net/http",
	params: []string{responseWriter, "*" + request},
}

// hookShapes are the shapes of the hooks, in the order of Source.Hooks.
var hookShapes = []shape{hookShape("Start"), hookShape("Stop"), hookShape("Ready")}

func hookShape(name string) shape {
	return shape{
		name: name, signature: "func " + name + "(context.Context) error", needs: "context",
		params: []string{contextType}, results: []string{errorType},
	}
}

// checkRoot checks Handler and the hooks in the handler's package. p is nil if the package has no
// files.
func (c *checker) checkRoot(p *pkg) {
	if p == nil {
		c.reportNoRoot()
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
			case !f.everywhere && isFunc && (hook >= 0 || name.Name == handlerShape.name):
				found = true
				c.reportNotBuilt(f, fn)
			case name.Name == handlerShape.name && isFunc:
				found = true
				c.checkFunc(p, f, fn, handlerShape, "")
			case name.Name == handlerShape.name:
				found = true
				c.report(f, name.Pos(), fmt.Sprintf("Handler is declared with %s, want a function: %s", decl.(*ast.GenDecl).Tok, Signature))
			case hook >= 0 && isFunc:
				hooks[name.Name] = true
				c.checkFunc(p, f, fn, hookShapes[hook], ", or use another name")
			}
		}
	}
	if !found {
		c.reportMissing(p)
	}
	for _, h := range hookShapes {
		if hooks[h.name] {
			c.hooks = append(c.hooks, h.name)
		}
	}
}

func (c *checker) checkFunc(p *pkg, f *file, fn *ast.FuncDecl, want shape, or string) {
	switch {
	case fn.Type.TypeParams != nil:
		c.report(f, fn.Pos(), fmt.Sprintf("%s must not have type parameters, want: %s%s", want.name, want.signature, or))
	case !p.matches(f, fn, want) && p.matches(imported(f, want.needs), fn, want):
		remedy := fmt.Sprintf("add: import %q", want.needs)
		for name, path := range f.names {
			if path == want.needs && name != "_" {
				remedy = fmt.Sprintf("which is imported as %s; use %s", name, name)
			}
		}
		c.report(f, fn.Pos(), fmt.Sprintf("%s needs the package %s, %s", want.name, shortName(want.needs), remedy))
	case !p.matches(f, fn, want):
		c.report(f, fn.Pos(), fmt.Sprintf("wrong signature for %s, want: %s%s", want.name, want.signature, or))
	case fn.Body == nil:
		c.report(f, fn.Pos(), want.name+" has no body; add one in braces")
	}
}

// imported returns a file that imports path and has the dot imports of f.
func imported(f *file, path string) *file {
	return &file{names: map[string]string{shortName(path): path}, dots: f.dots}
}

// matches reports whether fn has exactly the parameters and results of want.
func (p *pkg) matches(f *file, fn *ast.FuncDecl, want shape) bool {
	return p.hasTypes(f, fn.Type.Params, want.params) && p.hasTypes(f, fn.Type.Results, want.results)
}

// reportMissing reports that there is no Handler. It points to the likely cause: a method of that
// name, a function with the right signature and another name, or a Handler in a file that is not
// built or in another package.
func (c *checker) reportMissing(p *pkg) {
	for _, f := range p.files {
		for _, decl := range f.syntax.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			switch {
			case !ok:
			case fn.Recv != nil && fn.Name.Name == handlerShape.name:
				c.report(f, fn.Pos(), "Handler is a method, want a function: "+Signature)
				return
			case fn.Recv == nil && fn.Type.TypeParams == nil && p.matches(f, fn, handlerShape):
				c.report(f, fn.Pos(), fmt.Sprintf("no Handler declared; rename %s to Handler", fn.Name.Name))
				return
			}
		}
	}
	if c.reportElsewhere() {
		return
	}
	first := p.files[0]
	c.report(first, first.syntax.Name.Pos(), "no Handler declared; add: "+Signature)
}

// reportElsewhere reports a Handler in a file that does not belong to the handler's package. It
// returns false if there is none.
func (c *checker) reportElsewhere() bool {
	for _, f := range c.files {
		fn := f.handler()
		switch {
		case fn == nil:
			continue
		case f.dir != c.dir && f.built && c.mod != nil:
			c.report(f, fn.Pos(), "Handler must be in the package at the root of the archive, or in one that no other package imports; move it there")
		case f.dir != c.dir && f.built:
			c.report(f, fn.Pos(), "Handler must be in the package at the root of the archive; move it there")
		default:
			c.reportNotBuilt(f, fn)
		}
		return true
	}
	return false
}

// reportNotBuilt reports a function in a file that is not built on all architectures.
func (c *checker) reportNotBuilt(f *file, fn *ast.FuncDecl) {
	c.report(f, fn.Pos(), fmt.Sprintf("%s is in a file that is excluded for some platforms by its name or a build constraint; functions are built for linux, on %s", fn.Name.Name, strings.Join(architectures[:], " and ")))
}

// handler returns the function Handler of a file with any signature, or nil.
func (f *file) handler() *ast.FuncDecl {
	if f.syntax == nil {
		return nil
	}
	for decl, name := range declared(f.syntax) {
		if fn, ok := decl.(*ast.FuncDecl); ok && name.Name == handlerShape.name {
			return fn
		}
	}
	return nil
}

// reportNoRoot reports at the first Go file that no package can be the handler's package.
func (c *checker) reportNoRoot() {
	first := max(0, slices.IndexFunc(c.files, func(f *file) bool { return strings.HasSuffix(f.base, ".go") }))
	switch {
	case c.reportElsewhere():
	case len(c.goDirs) > 0 && c.mod != nil:
		c.reportAt(c.files[first], 0, "no package declares Handler; add: "+Signature)
	default:
		c.reportAt(c.files[first], 0, "no Go file at the root is built; add handler.go with "+Signature)
	}
}

// declared yields the declarations of a file except methods, with the declared names.
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

// The types in the signatures of functions that the runtime calls.
const (
	responseWriter = "net/http.ResponseWriter"
	request        = "net/http.Request"
	contextType    = "context.Context"
	errorType      = "error"
)

// declare fills in the names that the package declares. They shadow dot imports and universe types.
func (p *pkg) declare() {
	p.declared = make(map[string]bool)
	for _, f := range p.files {
		for _, name := range declared(f.syntax) {
			p.declared[name.Name] = true
		}
	}
}

// typeOf returns the type that expr in f refers to, if it is one of the above or a pointer to one,
// or else the empty string. It does not follow aliases that the package declares.
func (p *pkg) typeOf(f *file, expr ast.Expr) string {
	switch e := ast.Unparen(expr).(type) {
	case *ast.StarExpr:
		if of := p.typeOf(f, e.X); of == request {
			return "*" + of
		}
	case *ast.SelectorExpr:
		if from, ok := e.X.(*ast.Ident); ok && f.names[from.Name] != "" {
			return f.names[from.Name] + "." + e.Sel.Name
		}
	case *ast.Ident:
		return p.named(f, e.Name)
	}
	return ""
}

// named is typeOf for an unqualified name.
func (p *pkg) named(f *file, name string) string {
	switch {
	case p.declared[name]:
		return ""
	case f.dots["net/http"] && (name == "ResponseWriter" || name == "Request"):
		return "net/http." + name
	case f.dots["context"] && name == "Context":
		return contextType
	case name == errorType:
		return errorType
	}
	return ""
}

// hasTypes reports whether parameters or results in f have exactly these types.
func (p *pkg) hasTypes(f *file, fields *ast.FieldList, types []string) bool {
	if fields.NumFields() != len(types) {
		return false
	}
	if fields == nil {
		return true
	}
	for _, field := range fields.List {
		for range max(1, len(field.Names)) {
			if p.typeOf(f, field.Type) != types[0] {
				return false
			}
			types = types[1:]
		}
	}
	return true
}
