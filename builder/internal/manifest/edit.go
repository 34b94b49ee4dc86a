package manifest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/handler"
	"goless.io/builder/internal/source"
)

// An Edit is new content for a file.
type Edit struct {
	// Path of the file; source.Stdin for standard input.
	Path string

	// Old is nil if the file does not exist yet.
	Old, New []byte
}

// A Change is new content for files of a Function, by name. Files that are not in the source are
// added. If the input is a Go file or a directory, they are added to the directory. Otherwise they
// are added to the archive, and a source of a single file becomes an archive.
type Change struct {
	Function *Function
	Files    map[string][]byte
}

// Edits returns the edits for changes to Functions that were read from one input. They preserve the
// text around the sources and unchanged files.
func Edits(changes []Change) ([]Edit, error) {
	var edits []Edit
	sources := map[*Function][]byte{}
	for _, c := range changes {
		if c.Function.Separate() {
			edits = append(edits, c.Function.editFiles(c.Files)...)
		} else {
			sources[c.Function] = c.Function.splice(c.Files)
		}
	}
	if len(sources) == 0 {
		return edits, nil
	}
	edit, err := editText(sources)
	if err != nil || bytes.Equal(edit.Old, edit.New) {
		return edits, err
	}
	return append(edits, edit), nil
}

// Replace returns the edit that replaces the source of the Function.
func (f *Function) Replace(source []byte) (Edit, error) {
	return editText(map[*Function][]byte{f: source})
}

// YAML returns the complete YAML file that contains the Function, or nil if the input is not YAML.
func (f *Function) YAML() []byte {
	if f.block == nil {
		return nil
	}
	return f.text
}

// Files returns the files of the source, each with its line in the source.
func (f *Function) Files() []handler.File { return f.files }

// Within returns the directory of the module that contains the package of the Function, and the
// slash-separated directory of the package in the module. Both are empty if the Function is not a
// package of a module.
func (f *Function) Within() (module, dir string) {
	if f.within == "" {
		return "", ""
	}
	return f.dir, f.within
}

// Separate reports whether each file of the source is a separate file of the input: the input is a
// directory or a Go file.
func (f *Function) Separate() bool {
	return f.dir != "" || f.block == nil && path.Ext(f.file) == ".go" && !handler.IsArchive(f.text)
}

// InModule returns the absolute directory of the Function's files if that is in a module but the
// source does not include its go.mod. Otherwise it returns "".
func (f *Function) InModule() string {
	if !f.Separate() || f.file == source.StdinName || f.index("go.mod") >= 0 {
		return ""
	}
	dir, err := filepath.Abs(cmp.Or(f.dir, filepath.Dir(f.file)))
	if err != nil || source.FindModule(dir) == "" {
		return ""
	}
	return dir
}

// path returns the argument with which f can be read again.
func (f *Function) path() string {
	if f.file == source.StdinName {
		return source.Stdin
	}
	return f.file
}

// editFiles returns the edits for a Function whose files are Separate.
func (f *Function) editFiles(files map[string][]byte) []Edit {
	dir := cmp.Or(f.dir, filepath.Dir(f.file))
	var edits []Edit
	for _, name := range slices.Sorted(maps.Keys(files)) {
		edit := Edit{Path: source.InDir(dir, name), New: files[name]}
		i := f.index(name)
		if i >= 0 {
			edit.Old = f.files[i].Data
		}
		if i >= 0 && f.dir == "" {
			edit.Path = f.file // a source of one file has a fixed name, whatever the name of the file is
		}
		if edit.Old == nil || !bytes.Equal(edit.Old, edit.New) {
			edits = append(edits, edit)
		}
	}
	return edits
}

// index returns the index of the file in the source, or -1.
func (f *Function) index(name string) int {
	return slices.IndexFunc(f.files, func(file handler.File) bool { return file.Name == name })
}

// splice returns the source with new content for some files.
func (f *Function) splice(files map[string][]byte) []byte {
	lines := slices.Collect(bytes.Lines(f.Source))
	var b bytes.Buffer
	next := 0 // the first line that is not in b yet
	for _, file := range f.files {
		data, ok := files[file.Name]
		if !ok {
			continue
		}
		first := min(file.Line-1, len(lines))
		b.Write(withNewline(bytes.Join(lines[next:first], nil))) // the last marker may have no line break
		b.Write(withNewline(data))
		next = min(first+len(slices.Collect(bytes.Lines(file.Data))), len(lines))
	}
	b.Write(withNewline(bytes.Join(lines[next:], nil)))
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if f.index(name) < 0 {
			fmt.Fprintf(&b, "-- %s --\n%s", name, withNewline(files[name]))
		}
	}
	return b.Bytes()
}

// editText returns the edit for the file that contains all of these sources.
func editText(sources map[*Function][]byte) (Edit, error) {
	functions := slices.SortedFunc(maps.Keys(sources), func(a, b *Function) int { return cmp.Compare(b.line(), a.line()) })
	first := functions[0]
	edit := Edit{Path: first.path(), Old: first.text, New: sources[first]}
	if first.block == nil {
		return edit, nil
	}
	for _, f := range slices.Backward(functions) {
		if !f.block.literal() {
			return Edit{}, fmt.Errorf("%s:%d: spec.function of %s can only be changed in a literal block; start it with: function: |", f.file, f.line(), f.Name)
		}
	}
	lines := first.block.lines
	for _, f := range functions { // from the last to the first, so that line numbers above stay valid
		lines = f.block.replace(lines, string(sources[f]))
	}
	edit.New = []byte(strings.Join(lines, "\n"))
	for _, f := range functions {
		if !f.isIn(edit.New, sources[f]) {
			return Edit{}, fmt.Errorf("%s:%d: the new source of %s contains characters that a literal block cannot contain", f.file, f.line(), f.Name)
		}
	}
	return edit, nil
}

// line returns the line of the YAML where the source begins.
func (f *Function) line() int {
	if f.block == nil {
		return 1
	}
	return f.block.scalar.Line
}

// isIn reports whether the YAML contains the Function with this source.
func (f *Function) isIn(yaml, source []byte) bool {
	functions, _, err := readYAML(f.file, yaml, nil)
	return err == nil && slices.ContainsFunc(functions, func(other *Function) bool {
		return other.Name == f.Name && bytes.Equal(withNewline(other.Source), withNewline(source))
	})
}

func withNewline(data []byte) []byte {
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return append(slices.Clip(data), '\n')
	}
	return data
}

// A block is a scalar of a YAML file that contains a source.
type block struct {
	scalar *yaml.Node
	lines  []string // lines of the file
	source []string // lines of the source
}

// locate translates a line and column of the source to a position in the file. If the scalar is not
// a literal block, that is the position where the scalar begins.
func (b *block) locate(line, column int) place {
	// The indicator ends its line, so the source begins on the next one.
	inFile := b.scalar.Line + line
	if !b.literal() || inFile > len(b.lines) {
		inside := fmt.Sprintf("line %d of the source", line)
		if b.scalar.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle) == 0 && len(b.source) > 1 {
			inside += ", whose lines need function: | above them"
		}
		return place{line: b.scalar.Line, column: b.scalar.Column, inside: inside}
	}
	return place{line: inFile, column: b.column(line, column)}
}

func (b *block) literal() bool { return b.scalar.Style&yaml.LiteralStyle != 0 }

func (b *block) column(line, column int) int {
	if column == 0 || line > len(b.source) {
		return column
	}
	text := strings.TrimSuffix(b.lines[b.scalar.Line+line-1], "\r")
	if indentation, ok := strings.CutSuffix(text, b.source[line-1]); ok {
		return column + len(indentation)
	}
	return column
}

// replace returns the lines of the file with the source replaced.
func (b *block) replace(lines []string, source string) []string {
	begin := b.scalar.Line // lines are numbered from 1, so this is the index of the line below the indicator
	end := begin + len(withoutEnd(b.source))
	var changed []string
	for _, line := range withoutEnd(strings.Split(source, "\n")) {
		if line != "" {
			line = b.indentation() + line
		}
		if strings.HasSuffix(b.lines[begin-1], "\r") {
			line += "\r"
		}
		changed = append(changed, line)
	}
	return slices.Concat(lines[:begin], changed, lines[end:])
}

// withoutEnd removes the empty string that follows the last line break.
func withoutEnd(lines []string) []string {
	if end := len(lines) - 1; lines[end] == "" {
		return lines[:end]
	}
	return lines
}

// indentation returns the white space before the lines of the source.
func (b *block) indentation() string {
	for i, line := range b.source {
		if line != "" {
			return strings.TrimSuffix(strings.TrimSuffix(b.lines[b.scalar.Line+i], "\r"), line)
		}
	}
	return ""
}
