// Package handler validates Go sources: it decides whether a source is a Function, and otherwise
// reports each error with its position and a fix. The operator uses it too, so it only parses and
// never type-checks: 78 bytes of Go can keep a type checker busy indefinitely. It does not access
// file systems, compilers or Kubernetes.
//
// A source is one Go file, or a txtar archive of a package and what it needs: other packages, files
// to embed, tests, go.mod and go.sum. In an archive, the content of a binary file is encoded as
// base64, and its name has the prefix base64:. The handler is in the package at the top of the
// archive. If the archive has a go.mod and that package does not declare Handler, it is in a
// package that no other package of the module imports. Imports by programs (package main) do not
// count. If several such packages declare Handler, those that tests of other packages import are
// ignored, unless no package would be left. Then programs, and packages whose Handler does not have
// the signature func(http.ResponseWriter, *http.Request), are ignored, again unless no package
// would be left. If several are left, the source is rejected.
//
// Errors that a parser cannot find are reported by the compiler. The unsafe package is allowed: a
// function runs alone in its container, and the compiler does not execute what it compiles.
package handler

import (
	"slices"

	"golang.org/x/mod/modfile"
)

const (
	// Filename is the name of the only file of a source that is not an archive.
	Filename = "handler.go"

	// Signature is the declaration that every Function must contain.
	Signature = "func Handler(http.ResponseWriter, *http.Request)"

	// GoVersion is the Go release that compiles functions in a cluster. Build constraints and
	// go.mod are validated against it.
	GoVersion = "go1.27.4"

	// MaxCharacters is the maximum length of a source, in Unicode characters. A ConfigMap can hold
	// such a source even if each character takes four bytes.
	MaxCharacters = 245760

	// MaxFiles is the maximum for each of these: the files of an archive, its directories, the
	// modules in its vendor directory, and the directories of these modules.
	MaxFiles = 1000
)

// Source describes a valid source of a Function.
type Source struct {
	// Package is the name of the handler's package.
	Package string

	// Dir is the slash-separated directory of the handler's package. "." is the top of the source.
	Dir string

	// Files are all files, in source order.
	Files []File

	// Imports are the imports of all Go files that are built, in source order. Tests and vendored
	// packages are excluded.
	Imports []Import

	// Hooks are the functions that the runtime calls in addition to Handler, as far as the
	// handler's package declares them: Start, Stop and Ready, in this order.
	Hooks []string

	// GoMod is the parsed go.mod, or nil without one. It must not be modified.
	GoMod *modfile.File
}

// Vendored reports whether the archive contains the modules that its go.mod requires in its vendor
// directory.
func (s *Source) Vendored() bool {
	return s.GoMod != nil && slices.ContainsFunc(s.Files, func(f File) bool { return f.Name == VendorIndex })
}

// Import is an import declaration of a source.
type Import struct {
	// File is the name of the importing file.
	File string

	// Path is the unquoted import path.
	Path string

	// Line and Column are the position of the path, with the same meaning as in Diagnostic.
	Line, Column int
}

// Parse validates src, the source of a Function: one Go file or a txtar archive. In diagnostics,
// filename is the name of a single Go file; the files of an archive have their own names. If src is
// not a Function, Parse returns an *Error with diagnostics that are sorted by position. It returns
// no other errors.
//
// Functions are built for linux on amd64 and arm64. Handler and the hooks must be in files that are
// built on both.
func Parse(filename string, src []byte) (*Source, error) {
	c := &checker{filename: filename}
	if c.readable(src) && c.split(src) {
		c.checkModule()
		c.parse()
		c.checkFiles()
		c.checkPackages()
	}
	if err := newError(c.findings); err != nil {
		return nil, err
	}
	return c.source(), nil
}

// CheckModule returns an *Error with the errors that Parse finds in the go.mod alone. It returns
// nil if there are none or if files contains no go.mod.
func CheckModule(files []File) error {
	c := &checker{archive: true}
	c.addAll(files)
	c.checkGoMod()
	return newError(c.findings)
}

// Inspect returns the Source of an archive like Parse, but does not report errors. If files are
// invalid, the result may be incomplete.
func Inspect(files []File) *Source {
	c := &checker{archive: true}
	c.addAll(files)
	c.checkModule()
	c.parse()
	c.checkFiles()
	c.choose()
	return c.source()
}

// source returns the Source, as far as it is known.
func (c *checker) source() *Source {
	s := &Source{Dir: c.dir, Imports: c.imports, Hooks: c.hooks, GoMod: c.mod}
	for _, f := range c.files {
		s.Files = append(s.Files, f.File)
		if f.dir == c.dir && f.built {
			s.Package = f.syntax.Name.Name
		}
	}
	return s
}

// checkFiles checks the Go files that are built, one by one.
func (c *checker) checkFiles() {
	for _, f := range c.files {
		if f.built {
			c.checkImports(f)
			c.checkDirectives(f, directives)
			c.checkEmbeds(f)
		}
	}
}
