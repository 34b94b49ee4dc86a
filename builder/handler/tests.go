package handler

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckTests applies to tests the rules that Parse applies to other files: what tests may import,
// the directives that they may contain, and the files that must not be in their directories. Parse
// does not do this, so that tests that are never compiled cannot make a source invalid.
//
// names are the test files that are compiled, and module is the path of their module. The error is
// an *Error.
func CheckTests(s *Source, module string, names []string) error {
	c := &checker{archive: true}
	c.addAll(s.Files)
	c.checkGoMod()
	tested := make(map[string]bool)
	tokens := token.NewFileSet()
	for _, f := range c.files {
		if slices.Contains(names, f.Name) {
			tested[f.dir] = true
			c.checkTest(tokens, f, module)
		}
	}
	for _, f := range c.files {
		c.checkForeign(f, tested)
	}
	return newError(c.findings)
}

// checkTest checks a test file. The compiler reports errors in its syntax.
func (c *checker) checkTest(tokens *token.FileSet, f *file, module string) {
	if offset, message := tooDeep(f.Data); message != "" {
		c.reportAt(f, offset, message)
		return
	}
	syntax, _ := parser.ParseFile(tokens, f.Name, f.Data, parser.ParseComments|parser.SkipObjectResolution)
	if syntax == nil {
		return
	}
	f.syntax, f.tokens = syntax, tokens.File(syntax.FileStart)
	for _, spec := range syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value) // the parser accepted it
		if imported == module {
			continue // an external test imports the package that it tests
		}
		if message := c.checkImport(imported); message != "" {
			c.report(f, spec.Path.Pos(), message)
		}
	}
	c.checkDirectives(f, testDirectives)
}

// DeclaresTest reports whether go test runs anything in a test file: a test, a fuzz test, or an
// example with output. It returns true if the syntax is invalid, because the compiler reports that.
func DeclaresTest(source []byte) bool {
	if _, message := tooDeep(source); message != "" {
		return true
	}
	syntax, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil || slices.ContainsFunc(syntax.Decls, isTest) {
		return true
	}
	// The package doc looks for the declarations that an example uses, unless the example is in the
	// package itself. That takes too long in a source with thousands of examples.
	syntax.Name = ast.NewIdent("p")
	return slices.ContainsFunc(doc.Examples(syntax), func(e *doc.Example) bool { return e.Output != "" || e.EmptyOutput })
}

// isTest reports whether go test runs a function, or rejects its signature. Its rules are those of
// the go command.
func isTest(decl ast.Decl) bool {
	fn, ok := decl.(*ast.FuncDecl)
	switch {
	case !ok || fn.Recv != nil:
		return false
	case fn.Name.Name == "TestMain":
		return takesT(fn) // otherwise it calls the tests
	}
	for _, prefix := range []string{"Test", "Fuzz"} {
		if rest, ok := strings.CutPrefix(fn.Name.Name, prefix); ok {
			first, _ := utf8.DecodeRuneInString(rest)
			return rest == "" || !unicode.IsLower(first)
		}
	}
	return false
}

// takesT reports whether the only parameter of a function is a *testing.T.
func takesT(fn *ast.FuncDecl) bool {
	if fn.Type.Params.NumFields() != 1 {
		return false
	}
	pointer, ok := fn.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	switch of := pointer.X.(type) {
	case *ast.Ident:
		return of.Name == "T"
	case *ast.SelectorExpr:
		return of.Sel.Name == "T"
	}
	return false
}
