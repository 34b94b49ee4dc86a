// Package handler decides which Go sources are Functions. If one is not, it says
// where the mistakes are and how to mend them. It is the one package that the
// operator shares with the builder, so it parses and never type-checks: 78 bytes of
// Go can keep a type checker busy for ever. It knows nothing of file systems,
// compilers and Kubernetes.
//
// A source is one Go file, or a txtar archive of a package and what it needs: more
// packages, files to embed, tests, go.mod and go.sum. The content of a file that is
// not text is base64 in an archive, and its name begins with base64: there. The
// handler is in the package at the top, or else in the one package of the module
// that has one. What the parser cannot see, the compiler reports later. The unsafe
// package is allowed, because it does no harm to others: a function runs alone in its
// container, and the compiler does not execute what it compiles.
package handler

import (
	"slices"

	"golang.org/x/mod/modfile"
)

const (
	// Filename is the name that the source of a Function has wherever it is a
	// file, and that diagnostics use.
	Filename = "handler.go"

	// Signature is the one declaration that makes a source a Function.
	Signature = "func Handler(http.ResponseWriter, *http.Request)"

	// GoVersion is the release of Go that compiles functions in a cluster.
	// Build constraints and go.mod are judged by it.
	GoVersion = "go1.27.4"

	// MaxCharacters is the largest source, in Unicode characters. Even when
	// each of them needs four bytes, a ConfigMap can hold it.
	MaxCharacters = 245760

	// MaxFiles is the largest number of files in an archive, of directories, and of modules that
	// it has in its directory vendor.
	MaxFiles = 1000
)

// Source describes the source of a Function that can be built.
type Source struct {
	// Package is the name in the package clause of the handler's package.
	Package string

	// Dir is the directory of the handler's package, with slashes: "." for the
	// top of the source.
	Dir string

	// Files are all files, in the order of the source.
	Files []File

	// Imports are those of all Go files that are built, in the order of the
	// source. Tests and vendored packages are not among them.
	Imports []Import

	// Hooks are the functions of the handler's package that the runtime calls beside
	// Handler: those of Start, Stop and Ready that it declares, in this order.
	Hooks []string

	// GoMod is the content of the go.mod, nil without one. It is not to be changed.
	GoMod *modfile.File
}

// Vendored reports whether the archive has the modules that its go.mod requires, in
// the directory vendor.
func (s *Source) Vendored() bool {
	return s.GoMod != nil && slices.ContainsFunc(s.Files, func(f File) bool { return f.Name == VendorIndex })
}

// Import is one import declaration of a source.
type Import struct {
	// File is the name of the file that imports.
	File string

	// Path is the import path, without quotes.
	Path string

	// Line and Column are the place of the path, counted like a Diagnostic's.
	Line, Column int
}

// Parse decides whether src is the source of a Function: one Go file, or a txtar
// archive of several. The filename is the name that one Go file has in
// diagnostics; the files of an archive have their own. A source that is not a
// Function is returned as an *Error that holds the diagnostics, sorted by place;
// Parse returns no other error.
//
// A function is built for linux, on amd64 or arm64. Handler, and what else the runtime calls,
// is in files that are built on both.
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

// CheckModule returns an *Error with what Parse says of the go.mod among files by itself, and
// nil if that is nothing or there is none.
func CheckModule(files []File) error {
	c := &checker{archive: true}
	c.addAll(files)
	c.checkGoMod()
	return newError(c.findings)
}

// Inspect describes the files of an archive as Parse does, and judges nothing: where
// they are not right it tells as much as it can.
func Inspect(files []File) *Source {
	c := &checker{archive: true}
	c.addAll(files)
	c.checkModule()
	c.parse()
	c.checkFiles()
	c.choose()
	return c.source()
}

// source returns what has become known.
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

// checkFiles judges every Go file that is built by itself.
func (c *checker) checkFiles() {
	for _, f := range c.files {
		if f.built {
			c.checkImports(f)
			c.checkDirectives(f)
			c.checkEmbeds(f)
		}
	}
}
