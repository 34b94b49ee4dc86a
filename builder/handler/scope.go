package handler

import "go/ast"

// The types that the functions which the runtime calls are made of.
const (
	responseWriter = "net/http.ResponseWriter"
	request        = "net/http.Request"
	contextType    = "context.Context"
	errorType      = "error"
)

// declare fills in what the package declares, which hides what other packages call so.
func (p *pkg) declare() {
	p.declared = make(map[string]bool)
	for _, f := range p.files {
		for _, name := range declared(f.syntax) {
			p.declared[name.Name] = true
		}
	}
}

// typeOf returns the type that expr in f names if it is one of the above or a pointer to
// one, and else nothing. It does not follow aliases that the package declares.
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

// hasTypes reports whether the types of parameters or results in f are exactly these.
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
