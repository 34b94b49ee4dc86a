package source

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
)

// A collection collects the files of a directory that belong to a source.
type collection struct {
	dir      string // path of the directory
	root     *os.Root
	files    []handler.File
	notes    []string        // about files that were left out
	visited  map[string]bool // files and package directories, by name relative to dir
	embedded map[string]bool // files that Go files embed
	size     int64           // total size of the files in bytes
	modified time.Time       // latest modification time of the files
}

// collect calls read with a new collection for a directory. It returns the notes of the collection.
func collect(dir string, read func(*collection) (*Source, error)) (*Source, []string, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close() //nolint:errcheck // it was only read
	c := &collection{dir: dir, root: root, visited: map[string]bool{}, embedded: map[string]bool{}}
	f, err := read(c)
	if f != nil {
		f.Modified = c.modified
	}
	return f, c.notes, err
}

// at returns the path of a file for messages.
func (c *collection) at(name string) string { return InDir(c.dir, name) }

func (c *collection) note(name, message string) {
	c.notes = append(c.notes, c.at(name)+" "+message)
}

// addAll adds the files with these names, and the files that Go files embed. It adds Go files
// first, because they determine which other files are needed.
func (c *collection) addAll(names []string) error {
	isGo := func(name string) bool { return path.Ext(name) == ".go" }
	for _, name := range names {
		if isGo(name) {
			if _, err := c.add(name); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Concat(names, slices.Sorted(maps.Keys(c.embedded))) {
		if _, err := c.add(name); err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(c.files, func(f handler.File) bool { return isGo(f.Name) }) {
		return fmt.Errorf("%s contains no Go file", c.dir)
	}
	slices.SortFunc(c.files, func(a, b handler.File) int {
		return slices.Compare(strings.Split(a.Name, "/"), strings.Split(b.Name, "/"))
	})
	for _, f := range c.files {
		if c.embedded[f.Name] && isText(f.Data) && len(f.Data) > 0 && f.Data[len(f.Data)-1] != '\n' {
			c.note(f.Name, "has no newline at the end; the embedded file in the Function has one") // like all text in archives
		}
	}
	return nil
}

// add reads a file and adds it. It skips a file that was visited before, is not regular, or is not
// text and not embedded. It follows links that stay in the directory.
func (c *collection) add(name string) (data []byte, err error) {
	if c.visited[name] {
		return nil, nil
	}
	c.visited[name] = true
	local := filepath.FromSlash(name)
	info, err := c.root.Stat(local)
	if err != nil {
		if link, _ := c.root.Lstat(local); link != nil && link.Mode()&fs.ModeSymlink != 0 {
			return nil, handler.NewError(c.at(name), 1, 0, "the target of the link is missing or outside of the directory; replace the link by the file")
		}
		return nil, fmt.Errorf("reading %s: %w", c.dir, err)
	}
	if !info.Mode().IsRegular() {
		return nil, nil
	}
	file, err := c.root.Open(local)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", c.dir, err)
	}
	defer file.Close() //nolint:errcheck // it was only read
	data, err = io.ReadAll(io.LimitReader(file, maxSize))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", c.dir, err)
	case isUTF16(data) && (path.Ext(name) == ".go" || name == "go.mod"):
		return nil, handler.NewError(c.at(name), 1, 0, utf16Message)
	case path.Ext(name) == ".go":
		c.embed(path.Dir(name), data)
	case c.embedded[name]:
	case !isText(data):
		if _, err := buildinfo.Read(bytes.NewReader(data)); err != nil { // builder build writes programs here
			c.note(name, "is not text, and no Go file embeds it; skipped")
		}
		return nil, nil
	case isManifest.Match(data): // otherwise each pack --into would pack the output of the previous one
		c.note(name, "is YAML of Goless objects; skipped")
		return nil, nil
	}
	c.files = append(c.files, handler.File{Name: name, Line: 1, Data: data})
	if info.ModTime().After(c.modified) {
		c.modified = info.ModTime()
	}
	if c.size += info.Size(); c.size > maxSize {
		return nil, tooLarge(c.dir, "more than "+megabytes(maxSize), c.files)
	}
	return data, nil
}

// isManifest matches the YAML of Functions, classes and triggers.
var isManifest = regexp.MustCompile(`(?m)^apiVersion: *"?[a-z.]*goless\.io/`)

// isModule reports whether the directory name, relative to the root, is a nested module.
func (c *collection) isModule(name string) bool {
	_, err := c.root.Stat(filepath.FromSlash(path.Join(name, "go.mod")))
	return name != top && err == nil
}

// newDirectory returns the Source with the files in dir. It is an archive, unless
// handler.go is the only file.
func newDirectory(name, dir string, files []handler.File) (*Source, error) {
	slices.SortStableFunc(files, func(a, b handler.File) int { return cmp.Compare(rank(a.Name), rank(b.Name)) })
	f := &Source{Name: name, Files: files, File: dir, Dir: dir}
	if len(files) == 1 && files[0].Name == handler.Filename {
		f.Text = files[0].Data
		return f, nil
	}
	for _, file := range files {
		if err := checkArchivable(dir, file); err != nil {
			return nil, err
		}
	}
	f.Text = handler.Format(files)
	if count := utf8.RuneCount(f.Text); count > handler.MaxCharacters {
		return nil, tooLarge(dir, fmt.Sprintf("%d characters", count), files)
	}
	return f, nil
}

// rank orders the files of an archive for readers: generated files come last.
func rank(name string) int {
	switch {
	case strings.HasPrefix(name, "vendor/"):
		return 4
	case name == "go.sum":
		return 3
	case name == "go.mod":
		return 2
	case path.Ext(name) == ".go" && path.Base(name) == name:
		return 0
	}
	return 1
}

// checkArchivable returns an error if an archive cannot contain the name of a file, or the content
// of a Go file.
func checkArchivable(dir string, file handler.File) error {
	name := InDir(dir, file.Name)
	if strings.TrimSpace(file.Name) != file.Name || strings.ContainsAny(file.Name, "\r\n") {
		return handler.NewError(name, 1, 0, "invalid file name in a Function; use a name without newlines and without leading and trailing spaces")
	}
	if path.Ext(file.Name) != ".go" {
		return nil // handler.Format encodes files that are not text
	}
	if !isText(file.Data) {
		// A replacement character in the text is reported like an invalid byte.
		before := file.Data[:bytes.IndexFunc(file.Data, func(r rune) bool { return r == 0 || r == utf8.RuneError })]
		line, column := 1+bytes.Count(before, []byte("\n")), len(before)-bytes.LastIndexByte(before, '\n')
		return handler.NewError(name, line, column, "the file is not UTF-8 text (possibly Latin-1 or Windows-1252); save it as UTF-8, without NUL characters")
	}
	if archive := txtar.Parse(file.Data); len(archive.Files) > 0 {
		line := 1 + bytes.Count(archive.Comment, []byte("\n"))
		return handler.NewError(name, line, 1, "the line would start another file of the archive; indent it")
	}
	return nil
}

// utf16Message is the diagnostic for a file in UTF-16, which some editors on Windows write.
const utf16Message = "the file is encoded as UTF-16; save it as UTF-8"

// isUTF16 reports whether data begins with a byte order mark of UTF-16.
func isUTF16(data []byte) bool {
	return bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff"))
}

func isText(data []byte) bool { return utf8.Valid(data) && bytes.IndexByte(data, 0) < 0 }

// tooLarge returns the error for a directory that is too large, with its largest files.
func tooLarge(dir, total string, files []handler.File) error {
	const most = 5
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b handler.File) int { return cmp.Compare(len(b.Data), len(a.Data)) })
	var largest []string
	for _, file := range files[:min(len(files), most)] {
		largest = append(largest, fmt.Sprintf("%s (%s)", file.Name, megabytes(len(file.Data))))
	}
	return handler.NewError(InDir(dir, files[0].Name), 1, 0, fmt.Sprintf(
		"%s contains %s, but a Function can have at most %d characters; leave out files, the largest are %s",
		dir, total, handler.MaxCharacters, strings.Join(largest, ", ")))
}

func megabytes(size int) string { return fmt.Sprintf("%.1f MB", float64(size)/1e6) }

// embed records the files that the //go:embed directives of a Go file in dir match. It follows the
// rules of the go command: hidden files match only if a pattern names them or begins with all:, and
// files of other modules do not match. Errors in patterns are reported when the source is checked.
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
		matches, _ := fs.Glob(below, glob) // none if the pattern is invalid
		for _, match := range matches {
			if !c.isForeign(dir, match) {
				c.embedTree(below, dir, match, hidden)
			}
		}
	}
}

// isForeign reports whether a directory between dir and a file below it belongs to another module.
func (c *collection) isForeign(dir, match string) bool {
	for up := path.Dir(match); up != top; up = path.Dir(up) {
		if c.isModule(path.Join(dir, up)) {
			return true
		}
	}
	return false
}

// embedTree records a file, or the files of a directory, that a pattern matches in dir.
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

// isVersionControl reports whether the go command does not embed files with this name.
func isVersionControl(name string) bool {
	return slices.Contains([]string{".bzr", ".git", ".hg", ".svn"}, name)
}

// embedPatterns returns the patterns of files that a Go file embeds. Invalid patterns are reported
// when the source is checked.
func embedPatterns(src []byte) (patterns []string) {
	for line := range strings.Lines(string(src)) {
		directive, ok := ast.ParseDirective(token.NoPos, strings.TrimSpace(line))
		if !ok || directive.Tool != "go" || directive.Name != "embed" {
			continue
		}
		args, _ := directive.ParseArgs() // none if they are invalid
		for _, arg := range args {
			patterns = append(patterns, arg.Arg)
		}
	}
	return patterns
}
