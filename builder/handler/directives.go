package handler

import (
	"fmt"
	"go/ast"
	"io/fs"
	"iter"
	"path"
	"strings"
)

// A directive is a comment that would change what is compiled, and the message about it.
type directive struct{ prefix, message string }

// testDirectives are the directives that even tests must not contain. directives are those that no
// other file may contain.
var (
	testDirectives = []directive{{"//go:cgo_", "cgo directives are not allowed, because functions are built without cgo; remove this line"}}
	directives     = append([]directive{{"//go:linkname", "//go:linkname is not allowed; remove it"}}, testDirectives...)
)

// checkDirectives rejects line directives and the given directives to the toolchain.
func (c *checker) checkDirectives(f *file, rejected []directive) {
	for comment := range comments(f.syntax) {
		if isLineDirective(comment.Text) {
			c.report(f, comment.Pos(), "line directives are not allowed, because they change the positions of errors; remove this line")
		}
		for _, d := range rejected {
			rest, ok := strings.CutPrefix(comment.Text, d.prefix)
			if ok && (rest == "" || strings.ContainsAny(rest[:1], " \t") || strings.HasSuffix(d.prefix, "_")) {
				c.report(f, comment.Pos(), d.message)
			}
		}
	}
}

// comments yields the comments of a file.
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

// isLineDirective reports whether text looks like a line directive. A directive must contain a
// colon: the compiler ignores comments such as "//line up here".
func isLineDirective(text string) bool {
	rest, ok := strings.CutPrefix(text[1:], "/line ")
	if !ok {
		rest, ok = strings.CutPrefix(text[1:], "*line ")
	}
	return ok && strings.Contains(rest, ":")
}

// checkEmbeds rejects //go:embed in a source that is a single file, and patterns that are malformed
// or lead out of the file's directory. The go command reports patterns without matching files, with
// their position.
func (c *checker) checkEmbeds(f *file) {
	for comment := range comments(f.syntax) {
		directive, ok := ast.ParseDirective(comment.Pos(), comment.Text)
		if !ok || directive.Tool != "go" || directive.Name != "embed" {
			continue
		}
		args, err := directive.ParseArgs()
		switch {
		case !c.archive:
			c.report(f, comment.Pos(), "//go:embed has nothing to embed: the source is a single file; create a source from a directory with: builder pack DIR")
		case err != nil:
			c.report(f, comment.Pos(), fmt.Sprintf("cannot parse the pattern of //go:embed: %v", err))
		}
		for _, arg := range args {
			if c.archive && !isPattern(arg.Arg) {
				c.report(f, arg.Pos, fmt.Sprintf("cannot embed %s: the path must be inside the directory of the file, without . and ..", arg.Arg))
			}
		}
	}
}

// isPattern reports whether arg is a valid pattern of files below a directory for the go command.
func isPattern(arg string) bool {
	glob := strings.TrimPrefix(arg, "all:")
	_, err := path.Match(glob, "")
	return err == nil && glob != "." && fs.ValidPath(glob)
}
