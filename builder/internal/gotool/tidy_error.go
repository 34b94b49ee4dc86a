package gotool

import (
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"goless.io/builder/handler"
)

// noModuleFor matches what go mod tidy says of an import, below who imports it.
var noModuleFor = regexp.MustCompile(`^\t([^\s:]+): (.+)$`)

// tidyError makes an error of what go mod tidy has written: at the imports, where
// it is about some.
func tidyError(dir string, lines []string) error {
	lines = slices.DeleteFunc(lines, func(line string) bool {
		return strings.HasPrefix(line, "go: finding module ") || strings.HasPrefix(line, "go: found ") || strings.HasPrefix(line, "go: warning: ")
	})
	h, err := readModule(dir)
	if err != nil {
		return err
	}
	var all []handler.Diagnostic
	for _, line := range lines {
		if parts := noModuleFor.FindStringSubmatch(line); parts != nil {
			for _, at := range importsOf(h, parts[1]) {
				all = append(all, handler.NewDiagnostic(at.File, at.Line, at.Column, fmt.Sprintf("there is no module for the package %s: %s", parts[1], parts[2])))
			}
		}
	}
	if len(all) > 0 {
		return compileError(sorted(all), false)
	}
	return unexpected(lines)
}

// importsOf returns where a package is imported. Files with mistakes in them have
// no say: go mod tidy does not get to imports then.
func importsOf(h *handler.Handler, path string) (places []handler.Import) {
	for _, f := range h.Files {
		tokens := token.NewFileSet()
		file, err := parser.ParseFile(tokens, f.Name, f.Data, parser.ImportsOnly)
		if filepath.Ext(f.Name) != ".go" || err != nil {
			continue
		}
		for _, spec := range file.Imports {
			if spec.Path.Value == strconv.Quote(path) {
				at := tokens.PositionFor(spec.Path.Pos(), false)
				places = append(places, handler.Import{File: f.Name, Path: path, Line: at.Line, Column: at.Column})
			}
		}
	}
	return places
}
