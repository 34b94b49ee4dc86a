package gotool

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestVet(t *testing.T) {
	toolchain := planned(t)
	b := Build{Program: write(t, templated), Timeout: time.Minute}
	findings, err := toolchain.Vet(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("handler.go:13:2: result of fmt.Errorf call not used (unusedresult)", text(findings)); diff != "" {
		t.Errorf("findings: -want +got\n%s", diff)
	}
}

// TestVetIsBounded analyses sources that never end or that take all memory: the
// one ends when nobody waits any longer, the other at its limit.
func TestVetIsBounded(t *testing.T) {
	toolchain := planned(t)
	link, err := readPlan(toolchain.Plan)
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for path, name := range link.Packages {
		exports[path] = filepath.Join(toolchain.Cache, name)
	}
	for name, c := range map[string]struct {
		source   string
		patience time.Duration
		want     string
	}{
		"Time":   {hello + "\ntype I[T any] interface{ M() interface{ I[*T] } }\n", time.Second, "context canceled"},
		"Memory": {hello + "\ntype pair[A, B any] struct{ a A; b B }\n\ntype t = pair[int, int]\n" + doubled(28), time.Minute, "exit status 2"},
	} {
		t.Run(name, func(t *testing.T) {
			started := time.Now()
			a := toolchain.analyse(t.Context(), Build{Program: write(t, c.source), Vet: true}, t.TempDir(), exports)
			findings, err := a.wait(c.patience)
			if err == nil || len(findings) > 0 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("after %s: %v, %v, want %s", time.Since(started), findings, err, c.want)
			}
		})
	}
}

// doubled declares types whose names are twice as long each.
func doubled(n int) string {
	var b strings.Builder
	for i := range n {
		shorter := "t" + strings.Repeat("_", i)
		b.WriteString("type " + shorter + "_ = pair[" + shorter + ", " + shorter + "]\n")
	}
	return b.String() + "\nvar x t" + strings.Repeat("_", n) + "\n"
}
