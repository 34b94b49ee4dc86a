// Package handler owns the question of which Go sources are Functions, and
// answers it with the places and the remedies when one is not. It is the one
// package that the operator shares with the builder, so it parses and never
// type-checks: 78 bytes of Go can keep a type checker busy for ever. It refuses
// to know of files, compilers and Kubernetes.
//
// What the parser cannot see, the compiler reports later. The unsafe package is
// allowed, because it takes nothing from anybody: a function runs alone in its
// container, and the compiler does not execute what it compiles.
package handler

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strconv"
	"unicode/utf8"
)

const (
	// Filename is the name that the source of a Function has wherever it is a
	// file, and that diagnostics use.
	Filename = "handler.go"

	// Signature is the one declaration that makes a source a Function.
	Signature = "func Handler(http.ResponseWriter, *http.Request)"

	// MaxCharacters is the largest source, in Unicode characters. Even when
	// each of them needs four bytes, a ConfigMap can hold it.
	MaxCharacters = 245760

	handlerName = "Handler"
)

// Handler describes the source of a Function that can be built.
type Handler struct {
	// Package is the name in the package clause.
	Package string

	// Imports are in the order of the source.
	Imports []Import
}

// Import is one import declaration of a source.
type Import struct {
	// Path is the import path, without quotes.
	Path string

	// Line and Column are the place of the path, counted like a Diagnostic's.
	Line, Column int
}

// Parse decides whether src is the source of a Function. The filename is only
// used in diagnostics. A source that is not one is returned as an *Error that
// holds the diagnostics, sorted by place; Parse returns no other error.
func Parse(filename string, src []byte) (*Handler, error) {
	s := &source{filename: filename, src: src}
	if s.readable() {
		s.parse()
	}
	if s.file != nil {
		s.checkPackage()
		s.checkImports()
		s.checkDirectives()
		s.checkHandler()
	}
	if err := newError(s.diagnostics); err != nil {
		return nil, err
	}
	return &Handler{Package: s.file.Name.Name, Imports: s.imports}, nil
}

// A source collects what is wrong with one file.
type source struct {
	filename    string
	src         []byte
	tokens      *token.File
	file        *ast.File // nil unless the syntax is right
	imports     []Import
	http        []string // the names that net/http has in the file
	diagnostics []Diagnostic
}

// readable reports whether src is worth parsing: text, not empty, not too long.
func (s *source) readable() bool {
	text := bytes.TrimPrefix(s.src, []byte("\uFEFF"))
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		s.reportAt(0, "the source is empty, write a package with "+Signature)
	case utf8.RuneCount(s.src) > MaxCharacters:
		s.reportAt(0, fmt.Sprintf("the source has %d characters, at most %d are allowed", utf8.RuneCount(s.src), MaxCharacters))
	case !utf8.Valid(s.src):
		s.reportAt(invalidUTF8(s.src), "the source is not valid UTF-8, save it as UTF-8")
	case bytes.IndexByte(s.src, 0) >= 0:
		s.reportAt(bytes.IndexByte(s.src, 0), "the source holds a NUL character, remove it")
	}
	return len(s.diagnostics) == 0
}

// parse fills in s.file, or reports the syntax errors: the first ten lines that
// have one, because what follows is rarely a mistake of its own.
func (s *source) parse() {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, s.filename, s.src, parser.ParseComments|parser.SkipObjectResolution)
	if list, ok := err.(scanner.ErrorList); ok { //nolint:errorlint // ParseFile documents that it returns the list itself
		for _, e := range list {
			// Line and column of e obey //line comments, the offset does not.
			s.reportAt(e.Pos.Offset, e.Msg)
		}
		return
	}
	s.file, s.tokens = file, fset.File(file.FileStart)
}

// report adds a diagnostic at pos, which must belong to s.file.
func (s *source) report(pos token.Pos, message string) {
	at := s.tokens.PositionFor(pos, false)
	s.diagnostics = append(s.diagnostics, NewDiagnostic(s.filename, at.Line, at.Column, message))
}

// reportAt adds a diagnostic at a byte offset of a source that has no syntax
// tree. Like the compiler it counts columns in bytes.
func (s *source) reportAt(offset int, message string) {
	before := s.src[:min(offset, len(s.src))]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := len(before) - bytes.LastIndexByte(before, '\n')
	s.diagnostics = append(s.diagnostics, NewDiagnostic(s.filename, line, column, message))
}

// place renders pos as the reader of a diagnostic knows it.
func (s *source) place(pos token.Pos) string {
	at := s.tokens.PositionFor(pos, false)
	return s.filename + ":" + strconv.Itoa(at.Line) + ":" + strconv.Itoa(at.Column)
}

func invalidUTF8(src []byte) int {
	offset := 0
	for offset < len(src) {
		r, size := utf8.DecodeRune(src[offset:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		offset += size
	}
	return offset
}
