// Package handler owns the question of which Go sources are Functions, and
// answers it with the places and the remedies when one is not. It is the one
// package that the operator shares with the builder, so it parses and never
// type-checks: 78 bytes of Go can keep a type checker busy for ever. It refuses
// to know of file systems, compilers and Kubernetes.
//
// A source is one Go file, or a txtar archive of a package and what it needs:
// more packages, files to embed, tests, go.mod and go.sum. What the parser cannot
// see, the compiler reports later. The unsafe package is allowed, because it
// takes nothing from anybody: a function runs alone in its container, and the
// compiler does not execute what it compiles.
package handler

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

	// MaxFiles is the largest number of files in an archive.
	MaxFiles = 1000
)

// Handler describes the source of a Function that can be built.
type Handler struct {
	// Package is the name in the package clause of the root package.
	Package string

	// Files are all files, in the order of the source.
	Files []File

	// Imports are those of all Go files that are built, in the order of the
	// source. Tests and vendored packages are not among them.
	Imports []Import

	// Hooks are the functions of the root package that the runtime calls beside
	// Handler: those of Start, Stop and Ready that it declares, in this order.
	Hooks []string

	// Module says what the go.mod does, nil without one.
	Module *Module
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

// Module is what a go.mod says.
type Module struct {
	// Path is the module path.
	Path string

	// Requires reports whether other modules are required.
	Requires bool

	// Vendored reports whether the archive brings them along, in vendor.
	Vendored bool
}

// Parse decides whether src is the source of a Function: one Go file, or a txtar
// archive of several. The filename is the name that one Go file has in
// diagnostics; the files of an archive have their own. A source that is not a
// Function is returned as an *Error that holds the diagnostics, sorted by place;
// Parse returns no other error.
//
// A function is built for linux, on amd64 or arm64: where build constraints make
// a difference the source has to be right on both.
func Parse(filename string, src []byte) (*Handler, error) {
	s := &source{filename: filename}
	if s.readable(src) && s.split(src) {
		s.checkModule()
		s.parse()
		s.checkFiles()
		s.checkPackages()
	}
	if err := newError(s.findings); err != nil {
		return nil, err
	}
	h := &Handler{Imports: s.imports, Hooks: s.hooks[0], Module: s.module}
	for _, f := range s.files {
		h.Files = append(h.Files, f.File)
		if f.dir == root && f.built() {
			h.Package = f.syntax.Name.Name
		}
	}
	return h, nil
}

// checkFiles judges every Go file that is built by itself.
func (s *source) checkFiles() {
	for _, f := range s.files {
		if f.built() {
			s.checkImports(f)
			s.checkDirectives(f)
			s.checkEmbeds(f)
		}
	}
}
