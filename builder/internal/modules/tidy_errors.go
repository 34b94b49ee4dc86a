package modules

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"goless.io/builder/handler"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/program"
)

// noModuleFor matches the message of go mod tidy about an import that no module provides. It
// follows a line with the importing package.
var noModuleFor = regexp.MustCompile(`^\t([^\s:]+): (.+)$`)

// tidyError returns the error for the output of go mod tidy. Diagnostics about imports have the
// position of the import, and those about modules the position of the requirement in go.mod.
func tidyError(p *program.Program, lines []string) error {
	var faults []diagnose.Fault
	r := importReader{p, sync.OnceValue(p.Overrides), sync.OnceValue(func() []handler.Import { return importsOf(p.Source) })}
	for _, line := range lines {
		if parts := noModuleFor.FindStringSubmatch(line); parts != nil {
			faults = append(faults, r.faults(parts[1], parts[2])...)
		}
	}
	if len(faults) == 0 {
		if f, ok := diagnose.ModuleFault(p, r.overrides, "", "", strings.Join(lines, "\n")); ok {
			faults = append(faults, f)
		}
	}
	return cmp.Or(diagnose.FaultsError(faults), diagnose.Unexpected(lines))
}

// An importReader classifies messages of go mod tidy about imports. It caches the results of slow
// calls.
type importReader struct {
	*program.Program
	overrides func() []program.Override
	imports   func() []handler.Import
}

// faults returns the reasons why the go command has no module for a package: the module that go.mod
// requires is not available, or the imports are wrong.
func (r importReader) faults(pkg, reason string) (faults []diagnose.Fault) {
	if m, ok := r.Required(pkg); ok && strings.HasPrefix(reason, m.String()+": ") {
		if f, ok := diagnose.ModuleFault(r.Program, r.overrides, pkg, "", reason); ok {
			return []diagnose.Fault{f}
		}
	}
	for _, at := range r.imports() {
		if at.Path != pkg {
			continue
		}
		message := fmt.Sprintf("no module provides the package %s: %s", pkg, reason)
		faults = append(faults, diagnose.Fault{Diagnostic: handler.NewDiagnostic(at.File, at.Line, at.Column, message)})
	}
	return faults
}

// importsOf returns all imports of a source, including those of its tests. It skips files with
// syntax errors, because go mod tidy fails on them first.
func importsOf(src *handler.Source) (all []handler.Import) {
	for _, f := range src.Files {
		tokens := token.NewFileSet()
		file, err := parser.ParseFile(tokens, f.Name, f.Data, parser.ImportsOnly)
		if filepath.Ext(f.Name) != ".go" || err != nil {
			continue
		}
		for _, spec := range file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value) // parsed without errors
			at := tokens.PositionFor(spec.Path.Pos(), false)
			all = append(all, handler.Import{File: f.Name, Path: path, Line: at.Line, Column: at.Column})
		}
	}
	return all
}
