package modules

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"goless.io/builder/internal/buildtest"
)

// TestManyPackageFaults has many imports that no module provides, in a program with a long go.mod.
// Slow steps must be executed once, in a number that the author cannot increase, and not after the
// context has ended.
func TestManyPackageFaults(t *testing.T) {
	var excludes strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&excludes, "exclude example.com/x v1.0.%d\n", i)
	}
	p := buildtest.Write(t, "-- handler.go --\npackage p\n\nimport \"net/http\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n-- go.mod --\nmodule example.com/m\n\ngo 1.26\n\nrequire example.com/a v1.0.0\n\n"+excludes.String())
	tools := machine(t, "off")
	output := func(n int) *bytes.Reader {
		var b bytes.Buffer
		for i := range n {
			fmt.Fprintf(&b, `{"ImportPath":"example.com/a/p%d","Error":{"Pos":"handler/handler.go:3:8","Err":"module example.com/a@v1.0.0 found, but does not contain package example.com/a/p%d"}}`, i, i)
		}
		return bytes.NewReader(b.Bytes())
	}
	allocations := func(n int) float64 {
		return testing.AllocsPerRun(1, func() {
			if faults, err := packageFaults(t.Context(), tools, p, output(n)); err != nil || len(faults) != min(n, maxFaults+1) {
				t.Errorf("%d faults, %v", len(faults), err)
			}
		})
	}
	if one, many := allocations(1), allocations(100); many > one+100*200 {
		t.Errorf("%.0f allocations for one import and %.0f for 100", one, many)
	}
	allocations(5000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := packageFaults(ctx, tools, p, output(1)); err == nil {
		t.Error("it goes on after the end of the context")
	}
}
