package handler

import (
	"go/ast"
	"go/token"
)

// The types that the functions which the runtime calls are made of.
const (
	responseWriter = "net/http.ResponseWriter"
	request        = "net/http.Request"
	contextType    = "context.Context"
	errorType      = "error"
)

// An alias is a type that is another one by a declaration like type A = B. What
// else a package declares has no type: it only hides names of other packages.
type alias struct {
	file *file
	expr ast.Expr // nil if it is something else
}

// declare fills in what the package declares.
func (p *pkg) declare() {
	p.aliases, p.known = make(map[string]alias), make(map[string]string)
	for _, f := range p.files {
		for _, name := range declared(f.syntax) {
			p.aliases[name.Name] = alias{}
		}
		for _, decl := range f.syntax.Decls {
			if d, ok := decl.(*ast.GenDecl); ok && d.Tok == token.TYPE {
				p.declareAliases(f, d)
			}
		}
	}
}

func (p *pkg) declareAliases(f *file, types *ast.GenDecl) {
	for _, spec := range types.Specs {
		if t, ok := spec.(*ast.TypeSpec); ok && t.Assign.IsValid() && t.TypeParams == nil {
			p.aliases[t.Name.Name] = alias{f, t.Type}
		}
	}
}

// typeOf returns the type that expr in f stands for if it is one of the above or
// a pointer to one, and else nothing.
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

// named returns what typeOf does for a name without a package.
func (p *pkg) named(f *file, name string) string {
	if is, ok := p.known[name]; ok {
		return is
	}
	declared, isDeclared := p.aliases[name]
	switch {
	case isDeclared && declared.expr == nil:
		return ""
	case isDeclared:
		p.known[name] = "" // while it is not known: a cycle ends here
		p.known[name] = p.typeOf(declared.file, declared.expr)
		return p.known[name]
	case f.dots["net/http"] && (name == "ResponseWriter" || name == "Request"):
		return "net/http." + name
	case f.dots["context"] && name == "Context":
		return contextType
	case name == errorType:
		return errorType
	}
	return ""
}

// are reports whether the types of parameters or results in f are exactly these.
func (p *pkg) are(f *file, fields *ast.FieldList, types []string) bool {
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
