package handler

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
)

// parse parses the Go files and reports syntax errors.
func (c *checker) parse() {
	tokens := token.NewFileSet()
	for _, f := range c.files {
		if !f.isGo {
			continue
		}
		if offset, message := tooDeep(f.Data); message != "" {
			c.unparsed(f, offset, message)
			continue
		}
		syntax, errs := parseFile(tokens, f, 0)
		if len(errs) == 0 {
			f.syntax, f.tokens = syntax, tokens.File(syntax.FileStart)
			c.checkConstraints(f)
			continue
		}
		// Only the first error is reported, because it usually causes the others. Its line and
		// column obey //line comments, but its offset does not. At the end of the file, the offset
		// is after the last line, which may belong to another file.
		end := len(bytes.TrimRight(f.Data, " \t\r\n"))
		offset := min(errs[0].Pos.Offset, end)
		message := errs[0].Msg
		if bytes.HasPrefix(f.Data[bytes.LastIndexByte(f.Data[:offset], '\n')+1:], []byte("-- ")) {
			message += "; the line above each file of an archive must be exactly: -- NAME --"
		}
		c.unparsed(f, offset, message)
	}
}

// unparsed reports why a Go file cannot be parsed, unless it is excluded on all architectures: the
// go command reads only the constraints of such a file.
func (c *checker) unparsed(f *file, offset int, message string) {
	excluding, err := f.excluding()
	if c.archive && err == nil && len(excluding) == len(architectures) {
		f.isGo = false
		return
	}
	c.reportAt(f, offset, message)
}

// parseFile returns the syntax of f and its errors, except those that a later version of Go than
// that of this parser accepts. The compiler of functions reports these.
func parseFile(tokens *token.FileSet, f *file, mode parser.Mode) (*ast.File, scanner.ErrorList) {
	syntax, err := parser.ParseFile(tokens, f.Name, f.Data, mode|parser.ParseComments|parser.SkipObjectResolution)
	all, ok := err.(scanner.ErrorList) //nolint:errorlint // ParseFile documents that it returns the list itself
	if !ok {
		return syntax, nil
	}
	wrong := slices.DeleteFunc(slices.Clone(all), func(e *scanner.Error) bool {
		return e.Msg == "method must have no type parameters" // allowed since go1.27
	})
	if len(wrong) == 0 && len(all) > 10 && mode&parser.AllErrors == 0 {
		return parseFile(tokens, f, parser.AllErrors) // the parser stopped after ten errors
	}
	return syntax, wrong
}
