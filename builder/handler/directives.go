package handler

import (
	"fmt"
	"go/ast"
	"io/fs"
	"iter"
	"path"
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

// checkEmbeds rejects //go:embed in a source that has no other files, and patterns
// that are malformed or lead out of the file's directory. Whether a pattern matches a file
// is what the go command reports first, with the place of the pattern.
func (c *checker) checkEmbeds(f *file) {
	for comment := range comments(f.syntax) {
		directive, ok := ast.ParseDirective(comment.Pos(), comment.Text)
		if !ok || directive.Tool != "go" || directive.Name != "embed" {
			continue
		}
		args, err := directive.ParseArgs()
		switch {
		case !c.archive:
			c.report(f, comment.Pos(), "//go:embed has nothing to embed: the source is a single file, to make one of a directory run: builder pack DIR")
		case err != nil:
			c.report(f, comment.Pos(), fmt.Sprintf("the pattern of //go:embed cannot be read, mend it: %v", err))
		}
		for _, arg := range args {
			if c.archive && !isPattern(arg.Arg) {
				c.report(f, arg.Pos, fmt.Sprintf("cannot embed %s: write a path inside of the file's directory, without . and ..", arg.Arg))
			}
		}
	}
}

// isPattern reports whether the go command takes arg for a pattern of files below a
// directory.
func isPattern(arg string) bool {
	glob := strings.TrimPrefix(arg, "all:")
	_, err := path.Match(glob, "")
	return err == nil && glob != "." && fs.ValidPath(glob)
}
