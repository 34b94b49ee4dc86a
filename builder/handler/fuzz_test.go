package handler_test

import (
	"errors"
	"go/format"
	"strings"
	"testing"

	"goless.io/builder/handler"
)

// FuzzParse holds the two promises of Parse: it returns whatever the source is,
// with diagnostics that are safe to show, and what it accepts is a Handler that
// survives the formatting that an editor does.
func FuzzParse(f *testing.F) {
	f.Add(hello)
	f.Add("package p\nimport . `net/http`\nfunc Handler(ResponseWriter, *Request) {}")
	f.Add("package p\n//line a:1\nfunc (")
	f.Add("//go:build x\n\npackage main\nimport \"C\"\nvar Handler int")
	f.Add("\uFEFFpackage p; func `\n\x1b")
	f.Fuzz(func(t *testing.T, src string) {
		h, err := handler.Parse("handler.go", []byte(src))
		if rejected, ok := errors.AsType[*handler.Error](err); ok {
			checkDiagnostics(t, rejected)
			return
		}
		if err != nil || h == nil {
			t.Fatalf("Parse = %v, %v", h, err)
		}
		formatted, err := format.Source([]byte(strings.TrimPrefix(src, "\uFEFF")))
		if err != nil {
			t.Fatalf("accepted, but cannot be formatted: %v", err)
		}
		again, err := handler.Parse("handler.go", formatted)
		if err != nil {
			t.Fatalf("accepted, but not after formatting: %v", err)
		}
		if again.Package != h.Package || len(again.Imports) == 0 {
			t.Errorf("describes %+v before formatting, %+v after", h, again)
		}
	})
}

func checkDiagnostics(t *testing.T, rejected *handler.Error) {
	t.Helper()
	if n := len(rejected.Diagnostics); n == 0 || n > 10 {
		t.Errorf("rejected with %d diagnostics", n)
	}
	for _, d := range rejected.Diagnostics {
		if d.File != "handler.go" || d.Line < 1 || d.Column < 1 || d.Message == "" || strings.ContainsFunc(d.Message, func(r rune) bool { return r < ' ' }) {
			t.Errorf("diagnostic %+v is not fit to be shown", d)
		}
	}
}
