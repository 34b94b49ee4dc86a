package compile

import (
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
)

// maxFindings limits the size of the findings about one package, in bytes.
const maxFindings = 1 << 20

// allFindings returns the findings of vet about the packages of p, sorted by file and position,
// without duplicates.
func allFindings(p *program.Program, configs []vetConfig) ([]handler.Diagnostic, error) {
	var all []handler.Diagnostic
	for _, c := range configs {
		found, err := readFindings(c.Stdout, filepath.Join(p.Dir, program.HandlerDir))
		if err != nil {
			return nil, fmt.Errorf("reading the findings of go vet: %w", err)
		}
		for i := range found {
			if p.Source.GoMod == nil { // the author does not know this path
				found[i].Message = strings.ReplaceAll(found[i].Message, p.Path+".", "")
			}
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, handler.Diagnostic.Compare)
	return slices.Compact(all), nil
}

// readFindings reads the output of vet -json about a package in dir from a file.
func readFindings(file, dir string) (findings []handler.Diagnostic, err error) {
	f, err := sandbox.OpenResult(filepath.Dir(file), filepath.Base(file))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var byPackage map[string]map[string]json.RawMessage
	if err := json.NewDecoder(io.LimitReader(f, maxFindings)).Decode(&byPackage); err != nil {
		return nil, err
	}
	for _, byAnalyzer := range byPackage {
		for analyzer, encoded := range byAnalyzer {
			var found []struct{ Posn, Message string }
			if json.Unmarshal(encoded, &found) != nil {
				continue // an analyzer that failed has an error instead of findings
			}
			for _, one := range found {
				name, place, _ := strings.Cut(strings.TrimPrefix(one.Posn, dir+string(filepath.Separator)), ":")
				line, column, _ := strings.Cut(place, ":")
				d := handler.NewDiagnostic(filepath.ToSlash(name), 0, 0, fmt.Sprintf("%s (%s)", one.Message, analyzer))
				d.Line, _ = strconv.Atoi(line) // digits
				d.Column, _ = strconv.Atoi(column)
				findings = append(findings, d)
			}
		}
	}
	return findings, nil
}
