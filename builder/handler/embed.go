package handler

import (
	"fmt"
	"go/ast"
	"io/fs"
	"iter"
	"maps"
	"path"
	"slices"
	"strings"
)

// maxGlobbing bounds what matching wildcards may cost, in bytes of patterns times
// bytes of names. What is left then is for the go command to judge.
const maxGlobbing = 20e6

// contents are what an archive has to embed.
type contents struct {
	files map[string]bool
	dirs  map[string]bool // whether there is a file below that is not hidden
	names []string        // of both, sorted
}

// checkEmbeds rejects patterns that match nothing in the archive.
func (s *source) checkEmbeds(f *file) {
	for comment := range comments(f.syntax) {
		directive, ok := ast.ParseDirective(comment.Pos(), comment.Text)
		if !ok || directive.Tool != "go" || directive.Name != "embed" {
			continue
		}
		args, err := directive.ParseArgs()
		switch {
		case !s.archive:
			s.report(f, comment.Pos(), "//go:embed has nothing to embed: the source is a single file, to make one of a directory run: builder pack DIR")
		case err != nil:
			s.report(f, comment.Pos(), fmt.Sprintf("the pattern of //go:embed cannot be read, mend it: %v", err))
		default:
			s.checkPatterns(f, args)
		}
	}
}

func (s *source) checkPatterns(f *file, args []ast.DirectiveArg) {
	for _, arg := range args {
		if message := s.checkPattern(f.dir, arg.Arg); message != "" {
			s.report(f, arg.Pos, fmt.Sprintf("cannot embed %s: %s", arg.Arg, message))
		}
	}
}

// checkPattern returns why the files of dir cannot embed what pattern matches, or
// nothing.
func (s *source) checkPattern(dir, pattern string) string {
	glob, all := strings.CutPrefix(pattern, "all:")
	if _, err := path.Match(glob, ""); err != nil || glob == "." || !fs.ValidPath(glob) {
		return "write a path inside of the file's directory, without . and .."
	}
	if s.contents == nil {
		s.contents = newContents(s.files)
	}
	if !strings.ContainsAny(glob, `*?[\`) {
		return s.contents.checkMatch(dir, glob, all)
	}
	message := noMatch
	for name := range s.contents.below(dir) {
		if s.globbing += len(glob) * len(name); s.globbing > maxGlobbing {
			return ""
		}
		if ok, _ := path.Match(glob, name); !ok { // the pattern is right
			continue
		}
		if message = s.contents.checkMatch(dir, name, all); message != "" {
			break
		}
	}
	return message
}

const noMatch = "no file of the source matches, add it or mend the pattern"

// checkMatch returns why a file or directory in dir cannot be embedded, or
// nothing.
func (c *contents) checkMatch(dir, name string, all bool) string {
	inArchive := path.Join(dir, name)
	visible, isDir := c.dirs[inArchive]
	switch {
	case c.files[inArchive], isDir && (visible || all):
		return ""
	case isDir:
		return fmt.Sprintf("the files of %s are all hidden, write all:%s", name, name)
	}
	return noMatch
}

func newContents(files []*file) *contents {
	c := &contents{files: make(map[string]bool), dirs: make(map[string]bool)}
	for _, f := range files {
		c.files[f.Name] = true
		visible := !hidden(f.base)
		for dir := f.dir; dir != root; dir = path.Dir(dir) {
			c.dirs[dir] = c.dirs[dir] || visible
			visible = visible && !hidden(path.Base(dir))
		}
	}
	c.names = slices.AppendSeq(slices.Collect(maps.Keys(c.files)), maps.Keys(c.dirs))
	slices.Sort(c.names)
	return c
}

// below yields the names of what is below dir, as seen from there.
func (c *contents) below(dir string) iter.Seq[string] {
	prefix := dir + "/"
	if dir == root {
		prefix = ""
	}
	first, _ := slices.BinarySearch(c.names, prefix)
	return func(yield func(string) bool) {
		for _, name := range c.names[first:] {
			inside, ok := strings.CutPrefix(name, prefix)
			if !ok || !yield(inside) {
				return
			}
		}
	}
}
