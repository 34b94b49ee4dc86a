package handler_test

import (
	"errors"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

// FuzzParse checks the guarantees of Parse:
//
//   - It returns for any source.
//   - Diagnostics are safe to print and have existing positions.
//   - For an accepted source, a program can be generated.
//   - An accepted source is still accepted after formatting.
func FuzzParse(f *testing.F) {
	f.Add(hello)
	f.Add("package p\nimport . `net/http`\nfunc Handler(ResponseWriter, *Request) {}")
	f.Add("package p\n//line a:1\nfunc (")
	f.Add("//go:build x\n\npackage main\nimport \"C\"\nvar Handler int")
	f.Add("\uFEFFpackage p; func `\n\x1b")
	f.Add("package p\nimport \"net/http\"\ntype A = *B\ntype B = http.Request\nfunc Handler(w http.ResponseWriter, r A) {}\nfunc Stop() {}")
	f.Add(hello + "-- go.mod --\nmodule a.b/c\ngo 1.26\nrequire (\n\td.e/f v1.0.0\n)\n-- util/a_linux.go --\npackage util\n")
	f.Add(hello + "-- ../a --\n-- a\\b --\n-- x.s --\n-- go.work --\n-- A --\n-- a/b --\n")
	f.Add("-- a.go --\npackage p\n//go:embed a/* all:b \"c d\"\nvar x string\n-- a/.b --\n-- b/_c --\n-- c d --\n")
	f.Add("-- go.mod --\nreplace a => ../b\nretract [v1.0.0,\n-- vendor/modules.txt --\n")
	f.Add("Text.\n" + "-- a.go --\n" + hello + "-- base64:a/b --\nAP\n8=\n-- base64:c --\n?\n-- base64:vendor/modules.txt --\nAP8=\n")
	f.Fuzz(func(t *testing.T, src string) {
		h, err := handler.Parse("handler.go", []byte(src))
		if rejected, ok := errors.AsType[*handler.Error](err); ok {
			checkDiagnostics(t, rejected, []byte(src))
			return
		}
		if err != nil || h == nil {
			t.Fatalf("Parse = %v, %v", h, err)
		}
		if diff := cmp.Diff(handler.Split("handler.go", []byte(src)), h.Files); diff != "" {
			t.Errorf("files: -split +parsed\n%s", diff)
		}
		checkProgram(t, h)
		if len(h.Files) == 1 && !handler.IsArchive([]byte(src)) {
			checkFormatted(t, h, src)
		}
	})
}

func checkDiagnostics(t *testing.T, rejected *handler.Error, src []byte) {
	t.Helper()
	if n := len(rejected.Diagnostics); n == 0 || n > 10 {
		t.Errorf("rejected with %d diagnostics", n)
	}
	files := handler.Split("handler.go", src)
	for _, d := range rejected.Diagnostics {
		if d.Line < 1 || d.Column < 1 || d.Message == "" || strings.ContainsFunc(d.File+d.Message, func(r rune) bool { return r < ' ' }) {
			t.Errorf("diagnostic %+v is not fit to be shown", d)
		}
		exists := slices.ContainsFunc(files, func(f handler.File) bool {
			return handler.NewDiagnostic(f.Name, 1, 1, "").File == d.File && d.Line <= 1+strings.Count(string(f.Data), "\n")
		})
		if !exists && d.String() != "handler.go:1:1: "+d.Message {
			t.Errorf("diagnostic %+v is nowhere in the source", d)
		}
	}
}

func checkProgram(t *testing.T, h *handler.Source) {
	t.Helper()
	dir := t.TempDir()
	if _, err := program.Write(dir, h); err != nil {
		t.Fatalf("accepted, but no program can be written: %v", err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, "main.go"), nil, 0); err != nil {
		t.Errorf("accepted, but the program is not Go: %v", err)
	}
	for _, f := range h.Files {
		written, err := os.ReadFile(filepath.Join(dir, program.HandlerDir, f.Name))
		if err != nil || string(written) != string(f.Data) {
			t.Errorf("%s is not in the program: %v", f.Name, err)
		}
	}
}

func checkFormatted(t *testing.T, h *handler.Source, src string) {
	t.Helper()
	formatted, err := format.Source([]byte(strings.TrimPrefix(src, "\uFEFF")))
	if err != nil && strings.Contains(err.Error(), "method must have no type parameters") {
		return // the formatter is older than the compiler
	}
	if err != nil {
		t.Fatalf("accepted, but cannot be formatted: %v", err)
	}
	again, err := handler.Parse("handler.go", formatted)
	if err != nil {
		t.Fatalf("accepted, but not after formatting: %v", err)
	}
	if again.Package != h.Package || len(again.Imports) == 0 || !slices.Equal(again.Hooks, h.Hooks) {
		t.Errorf("describes %+v before formatting, %+v after", h, again)
	}
}
