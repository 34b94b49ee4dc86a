package handler

import (
	"go/ast"
	"iter"
	"strings"
)

// directives are comments that would change what is compiled, or where its
// errors seem to be.
var directives = []struct{ prefix, message string }{
	{"//go:linkname", "//go:linkname is not allowed, remove it"},
	{"//go:cgo_", "cgo directives are not allowed, remove it: functions are built without cgo"},
}

// checkDirectives rejects comments that are instructions to the toolchain.
func (c *checker) checkDirectives(f *file) {
	for comment := range comments(f.syntax) {
		if isLineDirective(comment.Text) {
			c.report(f, comment.Pos(), "line directives are not allowed, remove it: errors are shown where they are")
		}
		for _, d := range directives {
			rest, ok := strings.CutPrefix(comment.Text, d.prefix)
			if ok && (rest == "" || strings.ContainsAny(rest[:1], " \t") || strings.HasSuffix(d.prefix, "_")) {
				c.report(f, comment.Pos(), d.message)
			}
		}
	}
}

// comments yields the comments of a file, one by one.
func comments(syntax *ast.File) iter.Seq[*ast.Comment] {
	return func(yield func(*ast.Comment) bool) {
		for _, group := range syntax.Comments {
			for _, comment := range group.List {
				if !yield(comment) {
					return
				}
			}
		}
	}
}

// isLineDirective also takes comments for one that only look like it, but none
// without a colon: the compiler ignores those, and so does "//line up here".
func isLineDirective(text string) bool {
	rest, ok := strings.CutPrefix(text[1:], "/line ")
	if !ok {
		rest, ok = strings.CutPrefix(text[1:], "*line ")
	}
	return ok && strings.Contains(rest, ":")
}
