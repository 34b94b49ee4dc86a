package input

import (
	"go/ast"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// embed remembers which files the //go:embed directives of a Go file in dir name, as the go
// command does: hidden ones only where a pattern names them or begins with all, and none of
// other modules. Whoever checks the source reports what is wrong with a pattern.
func (c *collection) embed(dir string, src []byte) {
	below, err := fs.Sub(c.root.FS(), dir)
	if err != nil {
		return
	}
	for _, pattern := range embedPatterns(src) {
		glob, hidden := strings.CutPrefix(pattern, "all:")
		if glob == top {
			continue
		}
		matches, _ := fs.Glob(below, glob) // none if the pattern is wrong
		for _, match := range matches {
			if !c.isForeign(dir, match) {
				c.embedTree(below, dir, match, hidden)
			}
		}
	}
}

// isForeign reports whether a directory between dir and a file below it belongs to another
// module.
func (c *collection) isForeign(dir, match string) bool {
	for up := path.Dir(match); up != top; up = path.Dir(up) {
		if c.isModule(path.Join(dir, up)) {
			return true
		}
	}
	return false
}

// embedTree remembers a file, or the files of a directory, that a pattern matches in dir.
func (c *collection) embedTree(below fs.FS, dir, match string, hidden bool) {
	_ = fs.WalkDir(below, match, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // the go command says what is missing
		case isVersionControl(entry.Name()), name != match && !hidden && strings.ContainsAny(entry.Name()[:1], "._"):
			return skip(entry)
		case !entry.IsDir():
			c.embedded[path.Join(dir, name)] = true
		case c.isModule(path.Join(dir, name)):
			return fs.SkipDir
		}
		return nil
	})
}

// isVersionControl reports whether the go command embeds nothing that is called like that.
func isVersionControl(name string) bool {
	return slices.Contains([]string{".bzr", ".git", ".hg", ".svn"}, name)
}

// embedPatterns returns the patterns of files that a Go file embeds. Whoever checks the
// source reports those that are wrong.
func embedPatterns(src []byte) (patterns []string) {
	for line := range strings.Lines(string(src)) {
		directive, ok := ast.ParseDirective(token.NoPos, strings.TrimSpace(line))
		if !ok || directive.Tool != "go" || directive.Name != "embed" {
			continue
		}
		args, _ := directive.ParseArgs() // none if they are wrong
		for _, arg := range args {
			patterns = append(patterns, arg.Arg)
		}
	}
	return patterns
}
