package builder_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder"
	"goless.io/builder/handler"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

var update = flag.Bool("update", false, "write the golden files")

func diagnostics(n int, message string) []handler.Diagnostic {
	all := make([]handler.Diagnostic, 0, n)
	for i := range n {
		all = append(all, handler.NewDiagnostic(handler.Filename, 7+i, 4, message))
	}
	return all
}

// TestReport compares reports with the golden files, which the tests of the operator read.
func TestReport(t *testing.T) {
	pinned := &builder.Builder{Toolchain: &toolchain.Toolchain{Version: "go1.27.4"}}
	_, invalid := handler.Parse(handler.Filename, []byte("package main\n\nimport \"github.com/go-chi/chi/v5\"\n\nfunc Handler() {}\n"))
	cases := map[string]struct {
		builder  *builder.Builder
		err      error
		warnings []handler.Diagnostic
		unvetted error
	}{
		"built":          {builder: pinned},
		"compile_failed": {builder: pinned, err: &handler.Error{Compiled: true, Diagnostics: append(diagnostics(1, "w.Writ undefined (type http.ResponseWriter has no field or method Writ)"), diagnostics(1, `declared and not used: <a> & "b"`)...)}},
		"invalid_source": {builder: pinned, err: invalid},
		"truncated":      {builder: pinned, err: &handler.Error{Compiled: true, Diagnostics: diagnostics(100, strings.Repeat(`"ü" `, 40)), Omitted: 23}},
		"too_large":      {builder: pinned, err: sandbox.ErrTooLarge},
		"timeout":        {builder: pinned, err: compile.ErrTimeout},
		"out_of_memory":  {builder: pinned, err: sandbox.ErrOutOfMemory},
		"internal":       {builder: pinned, err: &handler.Error{Compiled: true, Diagnostics: diagnostics(1, "the compiler failed, which is a bug in Go, not in the function; rewrite this code differently: panic: index out of range")}},
		"warnings":       {builder: pinned, warnings: diagnostics(2, "fmt.Sprintf format %d has arg name of wrong type string (printf)")},
		"unvetted":       {builder: pinned, unvetted: context.DeadlineExceeded},
		"many_warnings":  {builder: pinned, warnings: diagnostics(100, "result of fmt.Errorf call not used (unusedresult)")},
		"failed":         {err: errors.New("reading /source/handler.go:\n\x1b[31m" + strings.Repeat(`"`, 3000))},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			report := builder.NewReport(c.builder, 412345*time.Microsecond, c.err)
			report.AddWarnings(&builder.Result{Result: compile.Result{Warnings: c.warnings, VetError: c.unvetted}})
			got, err := report.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if len(got) > 4096 || !json.Valid(got) {
				t.Errorf("a report of %d bytes, valid JSON: %t", len(got), json.Valid(got))
			}
			checkGolden(t, filepath.Join("testdata", "report", name+".json"), got)
		})
	}
}

// TestReportOfMany checks that a report is not encoded again for each omitted diagnostic.
func TestReportOfMany(t *testing.T) {
	pinned := &builder.Builder{Toolchain: &toolchain.Toolchain{Version: "go1.27.4"}}
	report := builder.NewReport(pinned, time.Second, nil)
	report.AddWarnings(&builder.Result{Result: compile.Result{Warnings: diagnostics(1000, "self-assignment of x (assign)"), Omitted: 7}})
	var data []byte
	allocations := testing.AllocsPerRun(1, func() {
		var err error
		if data, err = report.Marshal(); err != nil {
			t.Fatal(err)
		}
	})
	if allocations > 500 {
		t.Errorf("it takes %g allocations to leave out some of 1000 warnings", allocations)
	}
	var got builder.Report
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Warnings)+got.Omitted != 1007 || len(data) > 4096 || len(data) < 3900 {
		t.Errorf("%d warnings, %d left out, in %d bytes, want all 1007 counted and the room used", len(got.Warnings), got.Omitted, len(data))
	}
}

func checkGolden(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: -want +got\n%s", golden, diff)
	}
}
