package gotool

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

// readSums returns the lines of the go.sum of a program.
func readSums(p *program.Program) (map[string]bool, error) {
	data, err := os.ReadFile(filepath.Join(p.Dir, goSum))
	if err != nil {
		return nil, fmt.Errorf("reading the checksums of the program: %w", err)
	}
	lines := make(map[string]bool)
	for line := range strings.Lines(string(data)) {
		lines[strings.TrimSpace(line)] = true
	}
	return lines, nil
}

// checkSums reports an error if the go command has added checksums that it must
// not. It adds those of versions that are newer than what the author or the
// runtime know of, and asks the checksum database for them, unless that is turned
// off: nothing is built that nobody vouches for.
func (t *Toolchain) checkSums(p *program.Program, before map[string]bool) error {
	after, err := readSums(p)
	if err != nil {
		return err
	}
	var refused []handler.Diagnostic
	for _, line := range slices.Sorted(maps.Keys(after)) {
		fields := strings.Fields(line)
		if before[line] || len(fields) != 3 {
			continue
		}
		m := module.Version{Path: fields[0], Version: strings.TrimSuffix(fields[1], "/go.mod")}
		named, _ := required(p, m.Path)
		if named == m || !t.asksDatabase(m.Path) {
			at := requirement(p, m.Path)
			refused = append(refused, handler.NewDiagnostic(at.File, at.Line, at.Column, fmt.Sprintf("go.sum has no checksum of %s, write it with: builder tidy FILE", m)))
		}
	}
	if len(refused) > 0 {
		return compileError(sorted(refused), false)
	}
	return nil
}

// asksDatabase reports whether the go command asks the checksum database for a
// module.
func (t *Toolchain) asksDatabase(path string) bool {
	skipped := lookup(t.Network, "GONOSUMDB")
	if skipped == "" {
		skipped = lookup(t.Network, "GOPRIVATE")
	}
	return lookup(t.Network, "GOSUMDB") != "off" && !module.MatchPrefixPatterns(skipped, path)
}
