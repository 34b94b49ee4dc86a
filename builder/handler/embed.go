package handler

import (
	"fmt"
	"go/ast"
	"io/fs"
	"path"
	"strings"
)

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
