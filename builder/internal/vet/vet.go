// Package vet owns the analysis of packages that compile: the suite of go vet,
// over types from the export data that their compilation has used anyway. It
// refuses to know where that data comes from and who wrote the packages.
//
// The go command would analyse every dependency before, to know which functions
// of theirs never return or wrap Printf. Here only the packages in question are
// read, which takes a tenth of a second and not ten.
package vet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	suite "golang.org/x/tools/go/analysis/suite/vet"

	"goless.io/builder/handler"
)

// A Program is what to analyse, and what that needs.
type Program struct {
	// Dir is the absolute path of the directory that the files are named by.
	Dir string

	// Packages are analysed, and nothing else is. Their order does not matter.
	Packages []Package

	// Exports are files with the export data of what they import, by import
	// path. They may hold more.
	Exports map[string]string

	// Root is the GOROOT of the toolchain, for a standard library that is newer
	// than this program. It may be empty.
	Root string

	// GoVersion is the version of the language, such as "go1.26". It is the one
	// of this program's own compiler if it is empty.
	GoVersion string
}

// A Package is analysed as one.
type Package struct {
	// Path is the import path.
	Path string

	// Files are the Go files that are compiled, slash-separated and below Dir.
	Files []string
}

// Serve reads a Program as JSON and writes its findings as JSON.
func Serve(in io.Reader, out io.Writer) error {
	var p Program
	if err := json.NewDecoder(in).Decode(&p); err != nil {
		return fmt.Errorf("reading what to analyse: %w", err)
	}
	findings, err := Check(p)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(findings)
}

// Check returns what the analyzers have found, by file and place. The error says
// that they could not begin, because something does not compile.
func Check(p Program) ([]handler.Diagnostic, error) {
	loaded, err := load(p)
	if err != nil {
		return nil, fmt.Errorf("loading packages: %w", err)
	}
	graph, err := checker.Analyze(suite.Suite, loaded, nil)
	if err != nil {
		return nil, fmt.Errorf("analysing: %w", err)
	}
	var findings []handler.Diagnostic
	for _, action := range graph.Roots { // one that has failed has nothing to say
		for _, d := range action.Diagnostics {
			findings = append(findings, finding(action, d))
		}
	}
	slices.SortFunc(findings, func(a, b handler.Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(findings), nil
}

// finding has the place that an editor would show, whatever a line directive
// says.
func finding(action *checker.Action, d analysis.Diagnostic) handler.Diagnostic {
	at := action.Package.Fset.PositionFor(d.Pos, false)
	return handler.NewDiagnostic(at.Filename, at.Line, at.Column, fmt.Sprintf("%s (%s)", d.Message, action.Analyzer.Name))
}
