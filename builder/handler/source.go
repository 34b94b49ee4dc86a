package handler

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// root is the directory of the package that declares the handler.
const root = "."

// A source collects what is wrong with the files of one Function.
type source struct {
	filename string
	archive  bool
	files    []*file
	goDirs   map[string]bool // the directories that hold Go files to judge
	goMod    *file           // nil without one
	module   *Module         // nil unless the go.mod can be read
	required map[string]bool // the paths of the modules that it requires
	imports  []Import
	hooks    [len(architectures)][]string
	contents *contents // nil until something is to be embedded
	globbing int       // what that has cost
	findings []finding
}

// A file is one file of a source, and what has become known of it.
type file struct {
	File
	order int // among the files

	// dir and base are the two parts of the path in the program.
	dir, base string

	// isGo means that the file belongs to a package that is judged. Tests do
	// not, nor what the go command ignores, nor vendored packages.
	isGo bool

	tokens *token.File
	syntax *ast.File                // nil unless the syntax is right
	builds [len(architectures)]bool // whether the go command takes it there
	names  map[string]string        // import paths by the names they have in the file
	dots   map[string]bool          // import paths without a name
}

// built reports whether the file is compiled on some platform.
func (f *file) built() bool { return f.syntax != nil && slices.Contains(f.builds[:], true) }

// newFile tells from its name what a file of an archive is.
func newFile(order int, f File) *file {
	dir, base := path.Dir(f.Name), path.Base(f.Name)
	return &file{
		File: f, order: order, dir: dir, base: base,
		isGo: !ignored(dir) && !hidden(base) && strings.HasSuffix(base, ".go") && !strings.HasSuffix(base, "_test.go"),
	}
}

// ignored reports whether the go command finds no package of the module in dir.
func ignored(dir string) bool {
	if dir == root {
		return false
	}
	elements := strings.Split(dir, "/")
	return elements[0] == "vendor" || slices.Contains(elements, "testdata") || slices.ContainsFunc(elements, hidden)
}

// hidden reports whether an element of a path makes the go command ignore it.
func hidden(element string) bool {
	return strings.HasPrefix(element, "_") || strings.HasPrefix(element, ".")
}

// readable reports whether src is worth looking at: not empty, not too long, and
// text.
func (s *source) readable(src []byte) bool {
	whole := &file{File: File{Name: s.filename, Data: src}}
	switch {
	case len(bytes.TrimSpace(bytes.TrimPrefix(src, byteOrderMark))) == 0:
		s.reportAt(whole, 0, "the source is empty, write a package with "+Signature)
	case utf8.RuneCount(src) > MaxCharacters:
		s.reportAt(whole, 0, fmt.Sprintf("the source has %d characters, at most %d are allowed", utf8.RuneCount(src), MaxCharacters))
	}
	return len(s.findings) == 0
}

// split fills in s.files. It reports whether they can be judged: their names are
// right and their contents are text.
func (s *source) split(src []byte) bool {
	s.archive = IsArchive(src)
	if !s.archive {
		one := newFile(0, File{Name: Filename})
		one.File = File{Name: s.filename, Line: 1, Data: src}
		s.files = []*file{one}
	} else {
		s.goDirs = make(map[string]bool)
		for i, f := range splitArchive(src) {
			added := newFile(i, f)
			s.files = append(s.files, added)
			if added.isGo {
				s.goDirs[added.dir] = true
			}
			if f.Name == "go.mod" {
				s.goMod = added
			}
		}
		s.checkNames()
	}
	for _, f := range s.files {
		if i := invalidUTF8(f.Data); i >= 0 {
			s.reportAt(f, i, "the source is not valid UTF-8, save it as UTF-8")
		} else if i := bytes.IndexByte(f.Data, 0); i >= 0 {
			s.reportAt(f, i, "the source holds a NUL character, remove it")
		}
	}
	return len(s.findings) == 0
}

// report adds a finding at pos, which must belong to the syntax of f.
func (s *source) report(f *file, pos token.Pos, message string) {
	at := f.tokens.PositionFor(pos, false)
	s.findings = append(s.findings, finding{file: f, line: at.Line, column: at.Column, message: message})
}

// reportAt adds a finding at a byte offset of f. Like the compiler it counts
// columns in bytes.
func (s *source) reportAt(f *file, offset int, message string) {
	before := f.Data[:min(offset, len(f.Data))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	s.findings = append(s.findings, finding{file: f, line: line, column: column, message: message})
}

// place renders pos as the reader of a diagnostic knows it.
func (f *file) place(pos token.Pos) string {
	at := f.tokens.PositionFor(pos, false)
	return f.Name + ":" + strconv.Itoa(at.Line) + ":" + strconv.Itoa(at.Column)
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(src []byte) int {
	if utf8.Valid(src) {
		return -1
	}
	offset := 0
	for {
		r, size := utf8.DecodeRune(src[offset:])
		if r == utf8.RuneError && size <= 1 {
			return offset
		}
		offset += size
	}
}
