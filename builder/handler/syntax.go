package handler

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"slices"
)

// parse fills in the syntax of the Go files, or reports the errors.
func (c *checker) parse() {
	tokens := token.NewFileSet()
	for _, f := range c.files {
		if !f.isGo {
			continue
		}
		if offset, message := tooDeep(f.Data); message != "" {
			c.reportAt(f, offset, message)
			continue
		}
		syntax, errs := parseFile(tokens, f, 0)
		if len(errs) == 0 {
			f.syntax, f.tokens = syntax, tokens.File(syntax.FileStart)
			c.checkConstraints(f)
			continue
		}
		// What follows the first error is rarely a mistake of its own. Line and column
		// of an error obey //line comments, the offset does not. At the end of the file
		// it is behind the last line, which may be another file's.
		end := len(bytes.TrimRight(f.Data, " \t\r\n"))
		offset := min(errs[0].Pos.Offset, end)
		c.reportAt(f, offset, errs[0].Msg+cmp.Or(remedy(f.Data, offset), remedies[errs[0].Msg]))
	}
}

// notGo are the beginnings of lines that are often in a Go file by mistake.
var notGo = []struct{ begin, remedy string }{
	{"<<<<<<<", "; resolve the conflict of the merge"},
	{"```", "; remove the lines of Markdown around the code"},
	{"--- a/", "; this is a patch: apply it, and give the file that it changes"},
	{"--", "; the line above each file of an archive must be exactly: -- NAME --"},
}

// remedies are what to add to errors whose words do not say what to do.
var remedies = map[string]string{
	"expected 'package', found 'import'": "; begin the file with: package handlers",
	"expected 'package', found 'func'":   "; begin the file with: package handlers",
	"illegal rune literal":               "; text is in double quotes",
}

// remedy returns what to add to a syntax error at an offset if its line is one of notGo, or the
// source is the name of a file.
func remedy(src []byte, offset int) string {
	if name := bytes.TrimSpace(src); bytes.HasSuffix(name, []byte(".go")) && len(bytes.Fields(name)) == 1 {
		return "; write what is in the file here, and not its name"
	}
	line := src[bytes.LastIndexByte(src[:offset], '\n')+1:]
	for _, mistake := range notGo {
		if bytes.HasPrefix(line, []byte(mistake.begin)) {
			return mistake.remedy
		}
	}
	return ""
}

// parseFile returns the syntax of f and what is wrong with it, except for what is
// right in a later Go than the one that this parser is of: the compiler of
// functions judges that.
func parseFile(tokens *token.FileSet, f *file, mode parser.Mode) (*ast.File, scanner.ErrorList) {
	syntax, err := parser.ParseFile(tokens, f.Name, f.Data, mode|parser.ParseComments|parser.SkipObjectResolution)
	all, ok := err.(scanner.ErrorList) //nolint:errorlint // ParseFile documents that it returns the list itself
	if !ok {
		return syntax, nil
	}
	wrong := slices.DeleteFunc(slices.Clone(all), func(e *scanner.Error) bool {
		return e.Msg == "method must have no type parameters" // until go1.27
	})
	if len(wrong) == 0 && len(all) > 10 && mode&parser.AllErrors == 0 {
		return parseFile(tokens, f, parser.AllErrors) // it had given up
	}
	return syntax, wrong
}
