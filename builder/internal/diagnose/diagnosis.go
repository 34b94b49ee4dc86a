package diagnose

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/module"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// A diagnosis collects what the output of a build says to the author of a program.
type diagnosis struct {
	program     *program.Program
	overrides   []program.Override
	packages    *packageReader
	tools       *toolchain.Toolchain
	diagnostics []handler.Diagnostic
	dependency  []handler.Diagnostic // about packages that the author requires
	overridden  bool                 // dependency is about overrides
	internal    bool                 // the compiler has crashed
}

// placed matches a line of the compiler or the assembler that has a place in a
// file, and the lines below it that explain it.
var placed = regexp.MustCompile(`^\s*(?:asm: )?([^:]+):(\d+)(?::(\d+))?: (.*)$`)

// read takes from the lines about one package what is for the author, and returns the
// other lines. For the author are lines with a place in the author's files, lines
// about an imported package that cannot be loaded, and the crash of a compiler.
func (d *diagnosis) read(importPath string, lines []string) (others []string) {
	importPath, _, _ = strings.Cut(importPath, " ") // what follows names a test
	if d.readOverridden(importPath, lines) {
		return lines
	}
	before := len(d.diagnostics)
	for _, line := range lines {
		continues := strings.HasPrefix(line, "\t") && len(d.diagnostics) > before && !strings.HasPrefix(line, "\timports ")
		switch {
		case continues:
			d.extend(line)
		case d.place(line), d.placeDependency(line):
		default:
			others = append(others, line)
		}
	}
	if len(d.diagnostics) == before {
		others = d.readChain(others)
	}
	if len(d.diagnostics) == before && (d.isAuthors(importPath) || d.program.Source.GoMod != nil && !isGiven(importPath)) {
		d.readCrash(importPath, others)
		d.readElsewhere(importPath, others)
	}
	return others
}

// isGiven reports whether a package is the same in all programs: one of the standard
// library or the runtime, or main. If one of these does not compile, the author has no
// part in it.
func isGiven(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return importPath == program.Module || strings.HasPrefix(importPath+"/", program.RuntimeModule+"/") || !strings.Contains(first, ".")
}

// crashes are the beginnings of the output of a compiler that has crashed other than
// by a panic.
var crashes = []string{"internal compiler error: ", "<unknown line number>: internal compiler error: ", "runtime: goroutine stack exceeds"}

// readCrash adds a diagnostic if lines say that the compiler has crashed on a
// package.
func (d *diagnosis) readCrash(importPath string, lines []string) {
	i := slices.IndexFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "panic: ") && mentions(lines, "cmd/compile/") ||
			slices.ContainsFunc(crashes, func(crash string) bool { return strings.HasPrefix(line, crash) })
	})
	if i < 0 {
		return
	}
	message := strings.TrimPrefix(strings.TrimPrefix(lines[i], "<unknown line number>: "), internalError)
	at := d.importer(importPath)
	d.add(at.File, at.Line, at.Column, internalError+message)
}

// readElsewhere takes the first of lines with a place that the author does not know.
// Packages that were generated from another language have such places.
func (d *diagnosis) readElsewhere(importPath string, lines []string) {
	i := slices.IndexFunc(lines, func(line string) bool {
		return placed.MatchString(line) && !mentions([]string{line}, trouble...) && !isUnfetched(line)
	})
	if i < 0 || len(d.dependency) > 0 || d.internal {
		return
	}
	at, message := d.importer(importPath), strings.TrimSpace(lines[i])
	if !d.isAuthors(importPath) {
		message = importPath + " does not compile here: " + message
	}
	d.dependency = append(d.dependency, handler.NewDiagnostic(at.File, at.Line, at.Column, message))
}

// readOverridden takes lines about a package that is given with the runtime, and reports false if
// they are about another one. The package compiles with the modules that the runtime requires, so
// that what overrides these is at fault.
func (d *diagnosis) readOverridden(importPath string, lines []string) bool {
	if len(d.overrides) == 0 || !program.Gives(importPath) {
		return false
	}
	i := slices.IndexFunc(lines, func(line string) bool { return placed.MatchString(line) && !mentions([]string{line}, trouble...) })
	if i < 0 {
		return false
	}
	if !d.overridden {
		d.overridden, d.dependency = true, overriddenBy(d.overrides, lines[i])
	}
	return true
}

// refused matches what the linker says of a program that it cannot link: a symbol is
// undefined, defined twice or not to be referred to, assembly needs too much stack, or
// an object file is none.
var refused = regexp.MustCompile(`relocation target \S+ not defined|duplicated definition of symbol|: invalid reference to |nosplit stack over|too much data|invalid linker input file`)

// readLinker adds a diagnostic if lines say that the program cannot be linked.
func (d *diagnosis) readLinker(lines []string) {
	i := slices.IndexFunc(lines, refused.MatchString)
	if i < 0 || len(d.dependency) > 0 {
		return
	}
	at := d.importer("")
	for _, imported := range d.program.Source.Imports {
		if strings.Contains(lines[i], imported.Path+".") || strings.Contains(lines[i], imported.Path+":") {
			at = imported
		}
	}
	d.dependency = append(d.dependency, handler.NewDiagnostic(at.File, at.Line, at.Column, "the program cannot be linked: "+lines[i]))
}

// importer returns the place where the author should begin to look if a foreign package
// fails: what requires it, or what imports it, or else the first file.
func (d *diagnosis) importer(importPath string) handler.Import {
	if m, ok := d.program.Required(importPath); ok {
		return d.program.Requirement(m.Path)
	}
	imports := d.program.Source.Imports
	if i := slices.IndexFunc(imports, func(i handler.Import) bool { return i.Path == importPath }); i >= 0 {
		return imports[i]
	}
	return handler.Import{File: d.rootFile(), Line: 1, Column: 1}
}

func (d *diagnosis) isAuthors(importPath string) bool {
	return importPath == d.program.Path || strings.HasPrefix(importPath, d.program.Path+"/")
}

// authorFile returns the author's name of a file, given the name that the compiler or
// the linker has for it. It reports false if the file is not the author's.
func (d *diagnosis) authorFile(name string) (string, bool) {
	if rest, ok := strings.CutPrefix(name, d.program.Path); ok {
		version, inside, ok := strings.Cut(rest, "/") // the compiler gives the author's module one, @v0.0.0
		if ok && (version == "" || strings.HasPrefix(version, "@")) {
			return path.Clean(inside), true
		}
	}
	return authorFile(name)
}

// authorFile returns the author's name of a file, given the name that the compiler has
// for it. It reports false if the file is not the author's.
func authorFile(name string) (string, bool) {
	return strings.CutPrefix(path.Clean(name), program.HandlerDir+"/")
}

// place adds a diagnostic if line has a place in the author's files.
func (d *diagnosis) place(line string) bool {
	parts := placed.FindStringSubmatch(line)
	if parts == nil {
		return false
	}
	file, ok := d.authorFile(parts[1])
	if !ok || mentions([]string{quoted.ReplaceAllString(parts[4], "")}, trouble...) {
		return false
	}
	at, _ := strconv.Atoi(parts[2]) // digits
	column, _ := strconv.Atoi(parts[3])
	message := authorNames(strings.TrimPrefix(parts[4], d.program.Path+"."))
	d.add(file, at, column, cmp.Or(missingPackage(d.program, message), message))
	return true
}

// quoted matches what a message quotes of a source.
var quoted = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")

// placeDependency takes a line with a place in a module that was fetched. The first
// such line is enough, because the author can only require another version; without a go.mod
// not even that.
func (d *diagnosis) placeDependency(line string) bool {
	file, ok := strings.CutPrefix(strings.TrimSpace(line), hiddenModules+"/")
	if !ok || !placed.MatchString(line) || isUnfetched(line) || d.program.Source.GoMod == nil {
		return false
	}
	if len(d.dependency) == 0 {
		escaped, rest, _ := strings.Cut(file, "@")
		escapedVersion, inside, _ := strings.Cut(rest, "/")
		// The cache has "!g" for "G". What is not escaped like that is no module.
		required, _ := module.UnescapePath(escaped)
		version, _ := module.UnescapeVersion(escapedVersion)
		required, version = cmp.Or(required, escaped), cmp.Or(version, escapedVersion)
		at := d.program.Requirement(required)
		message := fmt.Sprintf("%s@%s does not compile here, require another version of it: %s", required, version, inside)
		name, _, _ := strings.Cut(inside, ":")
		if reason := d.packages.needsCgo(path.Join(required, path.Dir(name))); reason != "" {
			message = fmt.Sprintf("%s@%s does not compile here: %s; %s", required, version, inside, reason)
		}
		d.dependency = append(d.dependency, handler.NewDiagnostic(at.File, at.Line, at.Column, message))
	}
	return true
}

// readChain adds a diagnostic if lines say how the go command came to a package
// that it cannot load:
//
//	package goless.io/function
//		imports goless.io/function/handler
//		imports syscall/js: build constraints exclude all Go files
//
// Without, it returns the lines. The last import of the author's is the one that
// the author can change.
func (d *diagnosis) readChain(lines []string) (others []string) {
	var chain []string
	for i, line := range lines {
		step, ok := strings.CutPrefix(line, "\timports ")
		if !ok {
			continue
		}
		name, reason, failed := strings.Cut(step, ": ")
		name, _, _ = strings.Cut(name, " from ")
		chain = append(chain, name)
		if !failed {
			continue
		}
		for j := len(chain) - 1; j > 0; j-- {
			if found := d.findImport(chain[j-1], chain[j]); found != nil {
				d.add(found.File, found.Line, found.Column, cannotImport(chain, authorNames(reason)))
				return slices.DeleteFunc(slices.Clone(lines[i+1:]), func(line string) bool { return strings.TrimSpace(line) == "" })
			}
		}
	}
	return lines
}

// cannotImport says why the last package of a chain cannot be imported.
func cannotImport(chain []string, reason string) string {
	last := chain[len(chain)-1]
	if reason == "import cycle not allowed" {
		return reason + ": " + strings.Join(chain[slices.Index(chain, last):], " imports ")
	}
	return fmt.Sprintf("cannot import %q: %s", last, reason)
}

// findImport returns the import of a package by a package of the author's, or
// nil.
func (d *diagnosis) findImport(by, imported string) *handler.Import {
	dir, ok := d.dir(by)
	if !ok {
		return nil
	}
	imports := d.program.Source.Imports
	i := slices.IndexFunc(imports, func(i handler.Import) bool { return i.Path == imported && path.Dir(i.File) == dir })
	if i < 0 {
		return nil
	}
	return &imports[i]
}

// dir returns the directory, in the source, of a package of the author's.
func (d *diagnosis) dir(importPath string) (string, bool) {
	if !d.isAuthors(importPath) {
		return "", false
	}
	return path.Clean(strings.TrimPrefix(strings.TrimPrefix(importPath, d.program.Path), "/")), true
}

// authorNames replaces the names of files and directories in a message by the author's names.
func authorNames(message string) string { return mentioned.ReplaceAllString(message, "$1$2$3$4") }

// internalError begins the message of a compiler that has crashed.
const internalError = "internal compiler error: "

// mentioned matches the place of a file, or a directory at the end of a message such as
// "build constraints exclude all Go files in handler/a".
var mentioned = regexp.MustCompile(`(^|[\s(])` + program.HandlerDir + `/([^\s:]+\.go:\d)|( in )` + program.HandlerDir + `/([^\s:]+)$`)

func (d *diagnosis) add(file string, line, column int, message string) {
	if reason, crashed := strings.CutPrefix(message, internalError); crashed {
		d.internal = true
		message = "the compiler failed here, which is a bug of Go and not of the function; written in another way it may compile: " + reason
	}
	d.diagnostics = append(d.diagnostics, handler.NewDiagnostic(file, line, column, message))
}

// extend adds a line to the last diagnostic, unless the compiler has crashed: then its
// stack trace follows.
func (d *diagnosis) extend(line string) {
	if d.internal {
		return
	}
	last := &d.diagnostics[len(d.diagnostics)-1]
	more := strings.TrimSpace(authorNames(line))
	*last = handler.NewDiagnostic(last.File, last.Line, last.Column, strings.TrimSuffix(last.Message, ":")+"; "+more)
}

// rootFile returns the name of the first Go file of the root package.
func (d *diagnosis) rootFile() string {
	for _, f := range d.program.Source.Files {
		if path.Dir(f.Name) == "." && path.Ext(f.Name) == ".go" {
			return f.Name
		}
	}
	return handler.Filename
}
