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

// A diagnosis collects the diagnostics for the author of a program from the output of a build.
type diagnosis struct {
	program     *program.Program
	overrides   []program.Override
	packages    *packageReader
	tools       *toolchain.Toolchain
	testFile    string // of the package whose tests are compiled; empty for a function
	diagnostics []handler.Diagnostic
	dependency  []handler.Diagnostic // about packages that the author requires
	overridden  bool                 // dependency is about overrides
	internal    bool                 // the compiler has crashed
}

// placed matches a line of the compiler or the assembler that starts with a position in a file.
// Lines that explain it may follow.
var placed = regexp.MustCompile(`^\s*(?:asm: )?([^:]+):(\d+)(?::(\d+))?: (.*)$`)

// read adds diagnostics from the lines about one package and returns the remaining lines. It uses
// lines with a position in the author's files, lines about an imported package that cannot be
// loaded, and compiler crashes.
func (d *diagnosis) read(importPath string, lines []string) (others []string) {
	importPath = d.testedPackage(importPath)
	if d.readOverridden(importPath, lines) {
		return lines
	}
	before := len(d.diagnostics)
	for _, line := range lines {
		continues := strings.HasPrefix(line, "\t") && len(d.diagnostics) > before && !strings.HasPrefix(line, "\timports ")
		switch {
		case continues:
			d.extend(line)
		case d.place(line), d.placeTest(line), d.placeDependency(line):
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

// isGiven reports whether a package is the same in all programs: main, or one of the standard
// library or the runtime. If such a package does not compile, the author is not the cause.
func isGiven(importPath string) bool {
	first, _, _ := strings.Cut(importPath, "/")
	return importPath == program.Module || strings.HasPrefix(importPath+"/", program.RuntimeModule+"/") || !strings.Contains(first, ".")
}

// crashes are the prefixes of the output of a compiler that has crashed, except for panics.
var crashes = []string{"internal compiler error: ", "<unknown line number>: internal compiler error: ", "runtime: goroutine stack exceeds"}

// readCrash adds a diagnostic if the lines show that the compiler crashed on a package.
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

// readElsewhere adds a diagnostic for the first line with a position outside the author's files.
// Packages that were generated from another language have such positions.
func (d *diagnosis) readElsewhere(importPath string, lines []string) {
	i := slices.IndexFunc(lines, func(line string) bool {
		return placed.MatchString(line) && !mentions([]string{line}, trouble...) && !isUnfetched(line)
	})
	if i < 0 || len(d.dependency) > 0 || d.internal {
		return
	}
	at, message := d.importer(importPath), strings.TrimSpace(lines[i])
	if !d.isAuthors(importPath) {
		message = importPath + " does not compile: " + message
	}
	d.dependency = append(d.dependency, handler.NewDiagnostic(at.File, at.Line, at.Column, message))
}

// readOverridden handles lines about a package that belongs to the runtime. It reports false if the
// lines are about another package. The runtime's packages compile with the modules that the runtime
// requires, so an error in them is caused by the author's overrides of these modules.
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

// refused matches the linker's errors about a program that cannot be linked: a symbol that is
// undefined, defined twice or must not be referred to, assembly that needs too much stack, or an
// invalid object file.
var refused = regexp.MustCompile(`relocation target \S+ not defined|duplicated definition of symbol|: invalid reference to |nosplit stack over|too much data|invalid linker input file`)

// readLinker adds a diagnostic if the lines show that the program cannot be linked.
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

// importer returns the position that a diagnostic about a failing dependency refers to: the line
// that requires it, otherwise the import of it, otherwise the start of the first file or, if tests are
// compiled, of their first file.
func (d *diagnosis) importer(importPath string) handler.Import {
	if m, ok := d.program.Required(importPath); ok {
		return d.program.Requirement(m.Path)
	}
	imports := d.program.Source.Imports
	if i := slices.IndexFunc(imports, func(i handler.Import) bool { return i.Path == importPath }); i >= 0 {
		return imports[i]
	}
	return handler.Import{File: cmp.Or(d.testFile, d.rootFile()), Line: 1, Column: 1}
}

func (d *diagnosis) isAuthors(importPath string) bool {
	return importPath == d.program.Path || strings.HasPrefix(importPath, d.program.Path+"/")
}

// authorFile returns the author's name of a file, given its name in the output of the compiler or
// the linker. It reports false if the file is not the author's.
func (d *diagnosis) authorFile(name string) (string, bool) {
	if rest, ok := strings.CutPrefix(name, d.program.Path); ok {
		version, inside, ok := strings.Cut(rest, "/") // the compiler gives the author's module the version @v0.0.0
		if ok && (version == "" || strings.HasPrefix(version, "@")) {
			return path.Clean(inside), true
		}
	}
	return authorFile(name)
}

// authorFile returns the author's name of a file, given its name in the output of the compiler. It
// reports false if the file is not the author's.
func authorFile(name string) (string, bool) {
	return strings.CutPrefix(path.Clean(name), program.HandlerDir+"/")
}

// place adds a diagnostic if the line has a position in the author's files.
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

// quoted matches the string literals that a message quotes from a source.
var quoted = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`")

// placeDependency handles a line with a position in a fetched module. Only the first such line
// becomes a diagnostic, because the author can only require a different version. It reports false
// for all lines if there is no go.mod, since the author cannot do even that.
func (d *diagnosis) placeDependency(line string) bool {
	file, ok := strings.CutPrefix(strings.TrimSpace(line), hiddenModules+"/")
	if !ok || !placed.MatchString(line) || isUnfetched(line) || d.program.Source.GoMod == nil {
		return false
	}
	if len(d.dependency) == 0 {
		escaped, rest, _ := strings.Cut(file, "@")
		escapedVersion, inside, _ := strings.Cut(rest, "/")
		// The module cache escapes "G" as "!g". A path without valid escapes is used as it is.
		required, _ := module.UnescapePath(escaped)
		version, _ := module.UnescapeVersion(escapedVersion)
		required, version = cmp.Or(required, escaped), cmp.Or(version, escapedVersion)
		at := d.program.Requirement(required)
		message := fmt.Sprintf("%s@%s does not compile; require another version of it: %s", required, version, inside)
		name, _, _ := strings.Cut(inside, ":")
		if reason := d.packages.needsCgo(path.Join(required, path.Dir(name))); reason != "" {
			message = fmt.Sprintf("%s@%s does not compile: %s; %s", required, version, inside, reason)
		}
		d.dependency = append(d.dependency, handler.NewDiagnostic(at.File, at.Line, at.Column, message))
	}
	return true
}

// readChain adds a diagnostic if the lines contain the import chain to a package that the go
// command cannot load:
//
//	package goless.io/function
//		imports goless.io/function/handler
//		imports syscall/js: build constraints exclude all Go files
//
// Otherwise it returns the lines. The diagnostic is about the last import in the author's files,
// which the author can change.
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

// cannotImport returns the message for a chain whose last package cannot be imported.
func cannotImport(chain []string, reason string) string {
	last := chain[len(chain)-1]
	if reason == "import cycle not allowed" {
		return reason + ": " + strings.Join(chain[slices.Index(chain, last):], " imports ")
	}
	return fmt.Sprintf("cannot import %q: %s", last, reason)
}

// findImport returns the import of a package in one of the author's packages, or nil.
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

// dir returns the directory of one of the author's packages in the source.
func (d *diagnosis) dir(importPath string) (string, bool) {
	if !d.isAuthors(importPath) {
		return "", false
	}
	return path.Clean(strings.TrimPrefix(strings.TrimPrefix(importPath, d.program.Path), "/")), true
}

// authorNames replaces the names of files and directories in a message with the author's names.
func authorNames(message string) string { return mentioned.ReplaceAllString(message, "$1$2$3$4") }

// internalError is the prefix of the message of a compiler crash.
const internalError = "internal compiler error: "

// mentioned matches the position of a file, or a directory at the end of a message such as "build
// constraints exclude all Go files in handler/a".
var mentioned = regexp.MustCompile(`(^|[\s(])` + program.HandlerDir + `/([^\s:]+\.go:\d)|( in )` + program.HandlerDir + `/([^\s:]+)$`)

func (d *diagnosis) add(file string, line, column int, message string) {
	if reason, crashed := strings.CutPrefix(message, internalError); crashed {
		d.internal = true
		message = "the compiler failed, which is a bug in Go, not in the function; rewrite this code differently: " + reason
	}
	d.diagnostics = append(d.diagnostics, handler.NewDiagnostic(file, line, column, message))
}

// extend appends a line to the last diagnostic. It does nothing if the compiler has crashed,
// because the line then belongs to the stack trace.
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
