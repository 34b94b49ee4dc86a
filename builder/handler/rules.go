package handler

import (
	"fmt"
	"go/ast"
	"slices"
	"strconv"
	"strings"
)

// checkPackage rejects the packages that the program cannot import.
func (s *source) checkPackage() {
	pkg := s.file.Name.Name
	switch {
	case pkg == "main":
		s.report(s.file.Name.Pos(), "package main cannot be imported, use another name: package handlers")
	case pkg == "_":
		s.report(s.file.Name.Pos(), "package _ cannot be imported, use another name: package handlers")
	case pkg == "documentation":
		s.report(s.file.Name.Pos(), "package documentation is never compiled, use another name: package handlers")
	case strings.HasSuffix(pkg, "_test"):
		s.report(s.file.Name.Pos(), fmt.Sprintf("package %s is for tests, use another name: package handlers", pkg))
	}
}

// checkImports rejects what the build cannot resolve, and remembers the rest. A
// path belongs to the standard library when its first element has no dot; that
// such a package does not exist is for the compiler to say.
func (s *source) checkImports() {
	for _, spec := range s.file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has accepted the path
		}
		first, _, _ := strings.Cut(path, "/")
		switch {
		case path == "C":
			s.report(spec.Path.Pos(), `cannot import "C": functions are built without cgo`)
		case first == "goless.io":
			s.report(spec.Path.Pos(), fmt.Sprintf("cannot import %q: it is the program around the function, only the standard library can be imported", path))
		case strings.Contains(first, "."):
			s.report(spec.Path.Pos(), fmt.Sprintf("cannot import %q: only the standard library can be imported", path))
		case isInternal(path):
			s.report(spec.Path.Pos(), fmt.Sprintf("cannot import %q: it is internal to the Go distribution", path))
		}
		at := s.tokens.PositionFor(spec.Path.Pos(), false)
		s.imports = append(s.imports, Import{Path: path, Line: at.Line, Column: at.Column})
		if path == "net/http" {
			s.http = append(s.http, importName(spec))
		}
	}
}

// isInternal reports whether only the Go distribution itself may import path.
func isInternal(path string) bool {
	elements := strings.Split(path, "/")
	return elements[0] == "vendor" || elements[0] == "cmd" || slices.Contains(elements, "internal")
}

// importName returns the name by which the file knows net/http after spec.
func importName(spec *ast.ImportSpec) string {
	if spec.Name == nil {
		return "http"
	}
	return spec.Name.Name
}

// directives are comments that would change what is compiled, or where its
// errors seem to be.
var directives = []struct{ prefix, message string }{
	{"//go:linkname", "//go:linkname is not allowed, remove it"},
	{"//go:embed", "//go:embed has nothing to embed: the source is a single file"},
	{"//go:build", "build constraints are not allowed, remove the line: functions are built for one platform"},
	{"// +build", "build constraints are not allowed, remove the line: functions are built for one platform"},
}

// checkDirectives rejects comments that are instructions to the toolchain.
func (s *source) checkDirectives() {
	for _, group := range s.file.Comments {
		for _, comment := range group.List {
			if isLineDirective(comment.Text) {
				s.report(comment.Pos(), "line directives are not allowed, remove it: errors are shown where they are")
			}
			for _, d := range directives {
				if rest, ok := strings.CutPrefix(comment.Text, d.prefix); ok && (rest == "" || strings.ContainsAny(rest[:1], " \t")) {
					s.report(comment.Pos(), d.message)
				}
			}
		}
	}
}

// isLineDirective also takes comments for one that only look like it, but none
// without a colon: the compiler ignores those, and so does "//line up here".
func isLineDirective(text string) bool {
	rest, ok := strings.CutPrefix(text[1:], "/line ")
	if !ok {
		rest, ok = strings.CutPrefix(text[1:], "*line ")
	}
	return ok && strings.Contains(rest, ":")
}
