package manifest

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/source"
)

// A place is a position in an input. If the lines of the source are not lines of the input, inside
// is the position in the source.
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

// Locate translates the position of a diagnostic from a file of the source to the input. It also
// translates positions in the message. If the message contains the command "builder tidy FILE",
// Locate replaces FILE with the path of the input.
func (f *Function) Locate(d handler.Diagnostic) handler.Diagnostic {
	d.Message = strings.ReplaceAll(f.Mentions(d.Message), "builder tidy FILE", "builder tidy "+f.path())
	at := f.locate(d.File, d.Line, d.Column)
	d.File, d.Line, d.Column = at.file, at.line, at.column
	if at.inside != "" {
		d.Message = at.inside + ": " + d.Message
	}
	return d
}

// Mentions replaces positions in files of the source, such as "handler.go:3:5", with positions in
// the input. This includes positions in stack traces, where the file name follows the import path
// of the top directory of the source, with or without a version.
func (f *Function) Mentions(text string) string {
	if !strings.Contains(text, ":") {
		return text
	}
	f.compile.Do(func() { f.mention = mention(f.files) })
	return f.mention.ReplaceAllStringFunc(text, func(match string) string {
		parts := f.mention.FindStringSubmatch(match)
		line, _ := strconv.Atoi(parts[3])   // digits
		column, _ := strconv.Atoi(parts[4]) // digits or empty
		return parts[1] + f.locate(f.fullName(parts[2]), line, column).String()
	})
}

// fullName returns the name in the source of a file for which a log contains only the last element.
func (f *Function) fullName(name string) string {
	for _, file := range f.files {
		if path.Base(file.Name) == name && f.index(name) < 0 {
			return file.Name
		}
	}
	return name
}

// mention returns an expression that matches a position in any of the files, also inside a JSON
// string.
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
	return regexp.MustCompile(`(^|[\s(,;"'` + "`" + `]|\\[nt])(?:\./|` + regexp.QuoteMeta(root) + `(?:@[^/\s]+)?/)?(` + strings.Join(names, "|") + `):(\d+)(?::(\d+))?`)
}

func (f *Function) locate(file string, line, column int) place {
	line = max(line, 1)
	if f.dir != "" {
		return place{file: source.InDir(f.dir, file), line: line, column: column}
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
