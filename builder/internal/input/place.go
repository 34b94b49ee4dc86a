package input

import (
	"cmp"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

// A place is where something is in an input. Where the lines of a source are not
// lines of the input, inside says which one is meant.
type place struct {
	file         string
	line, column int
	inside       string
}

func (p place) String() string {
	if p.column == 0 {
		return fmt.Sprintf("%s:%d", p.file, p.line)
	}
	return fmt.Sprintf("%s:%d:%d", p.file, p.line, p.column)
}

// Locate returns d, which is in the lines of a file of the source, in the lines
// of the input. So are the places that its message names, and the file that a
// command in it should be called with.
func (f *Function) Locate(d handler.Diagnostic) handler.Diagnostic {
	d.Message = strings.ReplaceAll(f.Mentions(d.Message), "builder tidy FILE", "builder tidy "+f.path())
	at := f.locate(d.File, d.Line, d.Column)
	d.File, d.Line, d.Column = at.file, at.line, at.column
	if at.inside != "" {
		d.Message = at.inside + ": " + d.Message
	}
	return d
}

// Mentions returns text with the places in files of the source, as in
// "handler.go:3:5", made places in the input. So are those that stacks name by
// the import path.
func (f *Function) Mentions(text string) string {
	if !strings.Contains(text, ":") {
		return text
	}
	f.compile.Do(func() { f.mention = mention(f.files) })
	return f.mention.ReplaceAllStringFunc(text, func(match string) string {
		parts := f.mention.FindStringSubmatch(match)
		line, _ := strconv.Atoi(parts[3])   // digits
		column, _ := strconv.Atoi(parts[4]) // digits or nothing
		return parts[1] + f.locate(f.fullName(parts[2]), line, column).String()
	})
}

// fullName returns the name of the file in the source that tests call name: by
// the last element alone.
func (f *Function) fullName(name string) string {
	for _, file := range f.files {
		if path.Base(file.Name) == name && f.index(name) < 0 {
			return file.Name
		}
	}
	return name
}

// mention returns what matches a place in any of the files, in a string of JSON
// as well.
func mention(files []handler.File) *regexp.Regexp {
	root := program.Module + "/" + program.HandlerDir
	var names []string
	for _, file := range files {
		names = append(names, regexp.QuoteMeta(file.Name), regexp.QuoteMeta(path.Base(file.Name)))
		if file.Name == "go.mod" {
			root = modfile.ModulePath(file.Data)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return regexp.MustCompile(`(^|[\s(,;"'` + "`" + `]|\\[nt])(?:\./|` + regexp.QuoteMeta(root) + `/)?(` + strings.Join(names, "|") + `):(\d+)(?::(\d+))?`)
}

func (f *Function) locate(file string, line, column int) place {
	line = max(line, 1)
	if f.dir != "" {
		return place{file: filepath.Join(f.dir, filepath.FromSlash(file)), line: line, column: column}
	}
	i := slices.IndexFunc(f.files, func(known handler.File) bool { return known.Name == file })
	if i < 0 {
		return place{file: f.file, line: 1, inside: place{file: file, line: line, column: column}.String()}
	}
	line += f.files[i].Line - 1
	if f.block != nil {
		at := f.block.locate(line, column)
		at.file = f.file
		return at
	}
	return place{file: f.file, line: line, column: column}
}
