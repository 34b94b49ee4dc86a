package gotool

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

// A diagnosis is what the output of a build says to the author of a program.
type diagnosis struct {
	program     *program.Program
	diagnostics []handler.Diagnostic
	dependency  []handler.Diagnostic // about packages that the author requires
	crashed     string               // what the compiler said instead of a diagnostic
	internal    bool
}

// placed matches a line of the compiler that has a place in a file, and the lines
// below it that explain it.
var placed = regexp.MustCompile(`^\s*([^\s:]+\.go):(\d+)(?::(\d+))?: (.*)$`)

// read takes what is for the author from the lines about one package, and returns
// the others. The author's are those with a place in the author's files, and
// those about a package that they import and that cannot be loaded.
func (d *diagnosis) read(importPath string, lines []string) (others []string) {
	importPath, _, _ = strings.Cut(importPath, " ") // what follows names a test
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
	if d.isAuthors(importPath) && len(d.diagnostics) == before {
		d.crashed = firstText(others)
	}
	return others
}

func (d *diagnosis) isAuthors(importPath string) bool {
	return importPath == d.program.Path || strings.HasPrefix(importPath, d.program.Path+"/")
}

// authorFile returns the name of an author's file as the author knows it, of the
// name by which the compiler knows it.
func authorFile(name string) (string, bool) {
	return strings.CutPrefix(path.Clean(name), program.HandlerDir+"/")
}

// place adds a diagnostic if line has a place in the author's files.
func (d *diagnosis) place(line string) bool {
	parts := placed.FindStringSubmatch(line)
	if parts == nil {
		return false
	}
	file, ok := authorFile(parts[1])
	if !ok {
		return false
	}
	at, _ := strconv.Atoi(parts[2]) // digits
	column, _ := strconv.Atoi(parts[3])
	d.add(file, at, column, d.missing(authorNames(parts[4])))
	return true
}

// noModule matches what the go command says of an import that it cannot find.
var noModule = regexp.MustCompile(`^(?:cannot find module providing|no required module provides) package ([^\s:;]+)`)

// missing says what to do where message says that an import was not found.
func (d *diagnosis) missing(message string) string {
	parts := noModule.FindStringSubmatch(message)
	switch {
	case parts == nil:
		return message
	case d.program.Handler.Module != nil && d.program.Handler.Module.Vendored:
		return fmt.Sprintf("vendor has no package %s, put it there with: go mod vendor", parts[1])
	}
	return fmt.Sprintf(noPackage, parts[1])
}

// placeDependency takes a line that has a place in the files of a module that was
// fetched. The first of them is enough: the author can only take another version.
func (d *diagnosis) placeDependency(line string) bool {
	file, ok := strings.CutPrefix(strings.TrimSpace(line), hiddenModules+"/")
	if !ok || !placed.MatchString(line) {
		return false
	}
	if len(d.dependency) == 0 {
		module, rest, _ := strings.Cut(file, "@")
		version, inside, _ := strings.Cut(rest, "/")
		at := requirement(d.program, module)
		d.dependency = append(d.dependency, handler.NewDiagnostic(at.File, at.Line, at.Column,
			fmt.Sprintf("%s@%s does not compile here, require another version of it: %s", module, version, inside)))
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
	imports := d.program.Handler.Imports
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

// authorNames gives files that a message mentions the names that the author knows.
func authorNames(message string) string { return mentioned.ReplaceAllString(message, "$1$2") }

var mentioned = regexp.MustCompile(`(^|[\s(])` + program.HandlerDir + `/([^\s:]+\.go:\d)`)

func (d *diagnosis) add(file string, line, column int, message string) {
	d.internal = d.internal || strings.HasPrefix(message, "internal compiler error")
	d.diagnostics = append(d.diagnostics, handler.NewDiagnostic(file, line, column, message))
}

// extend adds a line to the last diagnostic. Nothing follows a failure of the
// compiler but its own stack.
func (d *diagnosis) extend(line string) {
	if d.internal {
		return
	}
	last := &d.diagnostics[len(d.diagnostics)-1]
	more := strings.TrimSpace(authorNames(line))
	*last = handler.NewDiagnostic(last.File, last.Line, last.Column, strings.TrimSuffix(last.Message, ":")+"; "+more)
}

// crash adds a diagnostic for a compiler that ended without one.
func (d *diagnosis) crash() {
	message := strings.TrimPrefix(d.crashed, "<unknown line number>: internal compiler error: ")
	d.add(d.rootFile(), 1, 1, "internal compiler error: "+message)
}

// rootFile returns the name of the first Go file of the root package.
func (d *diagnosis) rootFile() string {
	for _, f := range d.program.Handler.Files {
		if path.Dir(f.Name) == "." && path.Ext(f.Name) == ".go" {
			return f.Name
		}
	}
	return handler.Filename
}

func firstText(lines []string) string {
	for _, line := range lines {
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return ""
}
