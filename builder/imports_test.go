package builder

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"goless.io/builder/internal/buildtest"
)

// TestForeignImports uses many imports in one file. The file must be parsed only once: parsing it
// for each import allocates some thousand times as much.
func TestForeignImports(t *testing.T) {
	const count = 1000
	var source strings.Builder
	source.WriteString("-- go.mod --\nmodule example.com/m\n\ngo 1.26\n\nrequire example.com/other v1.0.0\n-- handler.go --\npackage m\n\nimport \"net/http\"\n")
	for i := range count {
		fmt.Fprintf(&source, "import _ \"example.com/other/p%d\"\n", i)
	}
	source.WriteString("\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n")
	p := buildtest.Write(t, source.String())
	b := &Builder{Toolchain: buildtest.Machine(t)}
	var found []string
	var err error
	allocations := testing.AllocsPerRun(1, func() { found, err = b.foreignImports(t.Context(), p) })
	if err != nil || len(found) != count {
		t.Fatalf("there are %d imports (%v), want %d", len(found), err, count)
	}
	if allocations > 100*count {
		t.Errorf("%d imports take %.0f allocations", count, allocations)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.foreignImports(ctx, p); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}
