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

	"golang.org/x/mod/modfile"
)

// root is the top directory of a source.
const root = "."

// checker validates the files of one Function and collects findings.
type checker struct {
	filename string
	archive  bool
	files    []*file
	goDirs   map[string]bool // directories with Go files to check
	dir      string          // of the handler's package
	goMod    *file           // nil without one
	mod      *modfile.File   // parsed goMod; nil if it is invalid or does not name the module
	required map[string]bool // paths of the modules that mod requires
	imports  []Import
	hooks    []string
	findings []finding
}

// file is a file of a source with the results of its analysis.
type file struct {
	File
	order int // index in files

	// dir and base are the directory and the last element of Name.
	dir, base string

	// isGo means that the file belongs to a package to check. It is false for tests, vendored
	// packages, and files that the go command ignores.
	isGo bool

	tokens     *token.File
	syntax     *ast.File         // nil if the syntax is invalid
	built      bool              // on at least one architecture
	everywhere bool              // built on all architectures
	names      map[string]string // import paths by their name in the file
	dots       map[string]bool   // import paths of dot imports
}

// newFile returns a file of an archive with the properties that its name determines.
func newFile(order int, f File) *file {
	dir, base := path.Dir(f.Name), path.Base(f.Name)
	return &file{
		File: f, order: order, dir: dir, base: base,
		isGo: !Ignored(f.Name) && strings.HasSuffix(base, ".go") && !strings.HasSuffix(base, "_test.go"),
	}
}

// Ignored reports whether the go command finds the file with this path in no package of the module,
// because it is vendored, in testdata, or hidden.
func Ignored(name string) bool { return ignored(path.Dir(name)) || hidden(path.Base(name)) }

// ignored reports whether the go command finds no package of the module in dir.
func ignored(dir string) bool {
	if dir == root {
		return false
	}
	elements := strings.Split(dir, "/")
	return elements[0] == "vendor" || slices.Contains(elements, "testdata") || slices.ContainsFunc(elements, hidden)
}

// hidden reports whether the go command ignores files and directories with this name.
func hidden(element string) bool {
	return strings.HasPrefix(element, "_") || strings.HasPrefix(element, ".")
}

// readable reports whether src can be checked: it is not empty and not too long.
func (c *checker) readable(src []byte) bool {
	whole := &file{File: File{Name: c.filename, Data: src}}
	switch {
	case len(bytes.TrimSpace(bytes.TrimPrefix(src, byteOrderMark))) == 0:
		c.reportAt(whole, 0, "the source is empty; write a package with "+Signature)
	case utf8.RuneCount(src) > MaxCharacters:
		c.reportAt(whole, 0, fmt.Sprintf("the source has %d characters, at most %d are allowed", utf8.RuneCount(src), MaxCharacters))
	}
	return len(c.findings) == 0
}

// split fills in c.files. It reports whether they can be checked: names are valid and contents are
// text.
func (c *checker) split(src []byte) bool {
	c.archive = IsArchive(src)
	if !c.archive {
		one := newFile(0, File{Name: Filename})
		one.File = File{Name: c.filename, Line: 1, Data: src}
		c.files = []*file{one}
	} else {
		c.addAll(splitArchive(src))
		c.checkNames()
	}
	for _, f := range c.files {
		if f.Encoded {
			continue
		}
		if i := invalidUTF8(f.Data); i >= 0 {
			c.reportAt(f, i, "the source is not UTF-8 (possibly Latin-1 or Windows-1252); save it as UTF-8")
		} else if i := bytes.IndexByte(f.Data, 0); i >= 0 {
			c.reportAt(f, i, "the source contains a NUL character; remove it")
		}
	}
	return len(c.findings) == 0
}

// addAll adds the files of an archive.
func (c *checker) addAll(files []File) {
	c.goDirs = make(map[string]bool)
	for i, f := range files {
		added := newFile(i, f)
		c.files = append(c.files, added)
		if added.isGo {
			c.goDirs[added.dir] = true
		}
		if f.Name == "go.mod" {
			c.goMod = added
		}
	}
}

// report adds a finding at pos, which must belong to the syntax of f.
func (c *checker) report(f *file, pos token.Pos, message string) {
	at := f.tokens.PositionFor(pos, false)
	c.findings = append(c.findings, finding{file: f, line: at.Line, column: at.Column, message: message})
}

// reportAt adds a finding at a byte offset of f. Columns are counted in bytes, as the compiler
// does.
func (c *checker) reportAt(f *file, offset int, message string) {
	before := f.Data[:min(offset, len(f.Data))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	c.findings = append(c.findings, finding{file: f, line: line, column: column, message: message})
}

// place formats pos like the position of a diagnostic.
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
