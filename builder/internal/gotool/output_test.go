package gotool

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

var update = flag.Bool("update", false, "write the golden files")

// TestExplain reads recorded output of go build -json. The expected part of each
// file is the error that it is made into.
func TestExplain(t *testing.T) {
	files, err := filepath.Glob("testdata/output/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded output: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := explainRecorded(t, archive)
			if *update {
				record(t, file, archive, got)
			}
			if diff := cmp.Diff(string(archive.Files[2].Data), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func record(t *testing.T, file string, archive *txtar.Archive, want string) {
	t.Helper()
	archive.Files[2].Data = []byte(want)
	if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ended returns what is left of a command that has failed and said nothing.
func ended(t *testing.T) *result {
	t.Helper()
	failed := exec.CommandContext(t.Context(), "false")
	_ = failed.Run() // it does nothing else
	return &result{state: failed.ProcessState}
}

// explainRecorded renders the error that is made of the output in archive.
func explainRecorded(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	r := ended(t)
	r.stdout.Write(archive.Files[0].Data)
	r.stderr.Write(archive.Files[1].Data)

	toolchain := &Toolchain{Root: "/var/run/ko/go", Cache: "/var/run/ko/cache", Modules: "/var/run/ko/mod"}
	p := &program.Program{Dir: "/tmp/goless-program-1", Path: "goless.io/function/handler", Handler: &handler.Handler{
		Files: []handler.File{{Name: "handler.go", Line: 1}},
		Imports: []handler.Import{
			{File: "handler.go", Path: "net/http", Line: 3, Column: 9},
			{File: "handler.go", Path: "net/htt", Line: 3, Column: 21},
			{File: "handler.go", Path: "syscall/js", Line: 4, Column: 2},
		},
	}}
	err := toolchain.explain(p, r)
	return render(err)
}

func render(err error) string {
	compile, ok := errors.AsType[*CompileError](err)
	if !ok {
		return fmt.Sprintf("not a CompileError: %v\n", err)
	}
	var b strings.Builder
	for _, d := range compile.Diagnostics {
		fmt.Fprintln(&b, d)
	}
	if compile.Internal {
		b.WriteString("the compiler's fault\n")
	}
	return b.String()
}

func TestExplainBoundsDiagnostics(t *testing.T) {
	d := diagnosis{program: &program.Program{Path: "m/handler"}}
	for i := range 250 {
		d.read("m/handler", []string{fmt.Sprintf("handler/x.go:%d:1: undefined: x", i+1)})
	}
	compile, ok := errors.AsType[*CompileError](compileError(d.diagnostics, d.internal))
	if !ok || len(compile.Diagnostics) != 100 || compile.Omitted != 150 {
		t.Errorf("err = %+v, want 100 diagnostics and 150 omitted", compile)
	}
	if want := "x.go:1:1: undefined: x (and 249 more)"; compile.Error() != want {
		t.Errorf("Error = %q, want %q", compile.Error(), want)
	}
}
