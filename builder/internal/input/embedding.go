package input

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"goless.io/builder/handler"
)

// An embedding is what the //go:embed directives of Go files name: the files, by their names
// in the module.
type embedding map[string]bool

// embedded returns what the Go files among files embed of the directory root.
func embedded(root *os.Root, files []handler.File) embedding {
	all := embedding{}
	for _, f := range files {
		if path.Ext(f.Name) == ".go" {
			for _, pattern := range embedPatterns(f.Data) {
				all.add(root, path.Dir(f.Name), pattern)
			}
		}
	}
	return all
}

// add adds the files that a pattern matches in a directory of root, as the go command does:
// hidden ones only where the pattern names them or begins with all. Whoever checks the source
// reports what is wrong with a pattern.
func (e embedding) add(root *os.Root, dir, pattern string) (names []string) {
	glob, hidden := strings.CutPrefix(pattern, "all:")
	below, err := fs.Sub(root.FS(), dir)
	if err != nil || glob == "." {
		return nil
	}
	matches, _ := fs.Glob(below, glob) // none if the pattern is wrong
	for _, match := range matches {
		_ = fs.WalkDir(below, match, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // the go command says what is missing
			case isVersionControl(entry.Name()), name != match && !hidden && strings.ContainsAny(entry.Name()[:1], "._"):
				return skip(entry)
			case entry.IsDir():
				if isModule(root, path.Join(dir, name)) {
					return fs.SkipDir
				}
				return nil
			}
			names = append(names, path.Join(dir, name))
			e[path.Join(dir, name)] = true
			return nil
		})
	}
	return names
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

// openNotes returns a note about each embedded text that has no line break at its end: in the
// source, which is an archive, it has one.
func (e embedding) openNotes(dir string, files []handler.File) (notes []string) {
	for _, f := range files {
		if e[f.Name] && isText(f.Data) && len(f.Data) > 0 && f.Data[len(f.Data)-1] != '\n' {
			notes = append(notes, fmt.Sprintf("%s has no line break at its end, what the Function embeds has one", inDir(dir, f.Name)))
		}
	}
	return notes
}
