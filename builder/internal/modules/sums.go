package modules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"goless.io/builder/handler"
	"goless.io/builder/internal/diagnose"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

const (
	goMod = "go.mod"
	goSum = "go.sum"
)

// readSums returns the lines of a program's go.sum.
func readSums(p *program.Program) (map[string]bool, error) {
	data, err := sandbox.ReadResult(p.Dir, goSum, program.MaxRequirements)
	if err != nil {
		return nil, fmt.Errorf("reading the checksums of the program: %w", err)
	}
	lines := make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		lines[strings.TrimSpace(line)] = true
	}
	return lines, nil
}

// checkSums returns an error if the go command has added unverified checksums to go.sum. It may add
// checksums of versions that neither the author nor the runtime names if it verifies them against
// the checksum database.
func checkSums(t *toolchain.Toolchain, p *program.Program, before map[string]bool) error {
	after, err := readSums(p)
	if err != nil {
		return err
	}
	var refused []handler.Diagnostic
	var unnamed []string // modules that are not in the author's go.mod
	for _, line := range slices.Sorted(maps.Keys(after)) {
		fields := strings.Fields(line)
		if before[line] || len(fields) != 3 {
			continue
		}
		m := module.Version{Path: fields[0], Version: strings.TrimSuffix(fields[1], "/go.mod")}
		named, _ := p.Required(m.Path)
		if named != m && asksDatabase(t, m.Path) {
			continue
		}
		if named.Path != m.Path {
			unnamed = append(unnamed, m.String())
			continue
		}
		at := p.Requirement(m.Path)
		refused = append(refused, handler.NewDiagnostic(at.File, at.Line, at.Column, fmt.Sprintf("go.sum has no checksum of %s; add it with: builder tidy FILE", m)))
	}
	if unnamed = slices.Compact(unnamed); len(unnamed) > 0 {
		refused = append(refused, handler.NewDiagnostic(goMod, 1, 1, fmt.Sprintf(
			"go.sum has no checksums of indirect modules (%d, the first is %s); add them with: builder tidy FILE", len(unnamed), unnamed[0])))
	}
	if len(refused) > 0 {
		return diagnose.NewError(refused)
	}
	return nil
}

// asksDatabase reports whether the go command uses the checksum database for a module.
func asksDatabase(t *toolchain.Toolchain, path string) bool {
	skipped := t.Setting("GONOSUMDB")
	if skipped == "" {
		skipped = t.Setting("GOPRIVATE")
	}
	return t.Setting("GOSUMDB") != "off" && !module.MatchPrefixPatterns(skipped, path)
}
