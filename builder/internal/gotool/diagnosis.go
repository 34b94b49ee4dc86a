package gotool

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"goless.io/builder/handler"
)

// A diagnosis is what the output of a build says to the author of a package.
type diagnosis struct {
	build       Build
	diagnostics []handler.Diagnostic
	crashed     string // what the compiler of the package said instead of a diagnostic
	internal    bool
}

// placed matches a line of the compiler that has a place in a file, and the lines
// below it that explain it.
var placed = regexp.MustCompile(`^\s*([^\s:]+\.go):(\d+)(?::(\d+))?: (.*)$`)

// read takes what is for the author from the lines about one package, and returns
// the others. The author's are those about the author's package, and about one
// that it imports and that cannot be loaded.
func (d *diagnosis) read(importPath string, lines []string) (others []string) {
	own := importPath == d.build.Module+"/"+d.build.Package
	imported := d.findImport(importPath)
	if !own && imported == nil {
		return lines
	}
	before := len(d.diagnostics)
	for _, line := range lines {
		continues := strings.HasPrefix(line, "\t") && len(d.diagnostics) > before
		reason, isImport := strings.CutPrefix(line, "\timports "+importPath+": ")
		switch {
		case continues:
			d.extend(line)
		case d.place(line), d.isChain(line):
		case isImport && imported != nil:
			d.add(handler.Filename, imported.Line, imported.Column, fmt.Sprintf("cannot import %q: %s", importPath, reason))
		default:
			others = append(others, line)
		}
	}
	if own && len(d.diagnostics) == before {
		d.crashed = firstText(others)
	}
	return others
}

// findImport returns the import of a package by the author, or nil.
func (d *diagnosis) findImport(importPath string) *handler.Import {
	i := slices.IndexFunc(d.build.Imports, func(i handler.Import) bool { return i.Path == importPath })
	if i < 0 {
		return nil
	}
	return &d.build.Imports[i]
}

// place adds a diagnostic if line has a place in the author's package.
func (d *diagnosis) place(line string) bool {
	parts := placed.FindStringSubmatch(line)
	if parts == nil {
		return false
	}
	file, ok := strings.CutPrefix(path.Clean(parts[1]), d.build.Package+"/")
	if !ok {
		return false
	}
	at, _ := strconv.Atoi(parts[2]) // digits
	column, _ := strconv.Atoi(parts[3])
	d.add(file, at, column, parts[4])
	return true
}

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
	more := strings.TrimSpace(strings.ReplaceAll(line, d.build.Package+"/", ""))
	*last = handler.NewDiagnostic(last.File, last.Line, last.Column, strings.TrimSuffix(last.Message, ":")+"; "+more)
}

// isChain reports whether line only says how the go command came to the author's
// package.
func (d *diagnosis) isChain(line string) bool {
	return line == "package "+d.build.Module || line == "\timports "+d.build.Module+"/"+d.build.Package
}

// crash adds a diagnostic for a compiler that ended without one.
func (d *diagnosis) crash() {
	message := strings.TrimPrefix(d.crashed, "<unknown line number>: internal compiler error: ")
	d.add(handler.Filename, 1, 1, "internal compiler error: "+message)
}

func (d *diagnosis) err() error {
	kept := min(len(d.diagnostics), maxDiagnostics)
	return &CompileError{Diagnostics: d.diagnostics[:kept], Omitted: len(d.diagnostics) - kept, Internal: d.internal}
}

func firstText(lines []string) string {
	for _, line := range lines {
		if strings.TrimSpace(line) != "" {
			return line
		}
	}
	return ""
}
