package compile

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
)

// TestBuildReportsEveryPackage checks mistakes in imported packages.
func TestBuildReportsEveryPackage(t *testing.T) {
	tools := buildtest.Machine(t)
	const many = "var _ = a; var _ = b; var _ = c; var _ = d; var _ = e; var _ = f; var _ = g; var _ = h; var _ = i; var _ = j; var _ = k\n"
	wantMany := "pages/pages.go:5:9: undefined: a"
	for i, name := range "bcdefghijk" {
		wantMany += fmt.Sprintf("\npages/pages.go:5:%d: undefined: %c", 20+11*i, name)
	}
	cases := map[string]struct{ old, new, want string }{
		"Root":        {"pages.Home()", "pages.Away()", "handler.go:9:77: undefined: pages.Away"},
		"Package":     {`text.Upper("home")`, `text.Lower("home")`, "pages/pages.go:5:34: undefined: text.Lower"},
		"Internal":    {"strings.ToUpper(s)", "len(s)", "internal/text/text.go:3:8: \"strings\" imported and not used\ninternal/text/text.go:5:38: cannot use len(s) (value of type int) as string value in return statement"},
		"Signature":   {"func Upper(s string) string", "func Upper(s []byte) string", "internal/text/text.go:5:54: cannot use s (variable of type []byte) as string value in argument to strings.ToUpper"},
		"Cycle":       {"import \"strings\"", "import (\n\t\"strings\"\n\n\t_ \"example.com/site/pages\"\n)", "internal/text/text.go:6:4: import cycle not allowed: example.com/site/pages imports example.com/site/internal/text imports example.com/site/pages"},
		"Setting":     {"go 1.26\n", "go 1.26\n\ngodebug nonsense=1\n", "go.mod:1:1: error loading go.mod: unknown godebug \"nonsense\""},
		"Explanation": {"func Home() string {", "type T struct{}\n\nfunc (T) Read() {}\n\nvar _ interface{ Read(int) } = T{}\n\nfunc Home() string {", "pages/pages.go:9:32: cannot use T{} (value of struct type T) as interface{Read(int)} value in variable declaration: T does not implement interface{Read(int)} (wrong type for method Read); have Read(); want Read(int)"},
		"Many":        {"func Home", many + "func Home", wantMany},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(buildtest.Site, c.old) {
				t.Fatalf("the source has no %q", c.old)
			}
			p := buildtest.Write(t, strings.Replace(buildtest.Site, c.old, c.new, 1))
			_, err := Build(t.Context(), tools, Options{Program: p, Output: filepath.Join(t.TempDir(), "server"), Timeout: buildtest.Timeout})
			failure, ok := errors.AsType[*handler.Error](err)
			if !ok {
				t.Fatalf("Build: %v, want a *handler.Error", err)
			}
			if diff := cmp.Diff(c.want, text(failure.Diagnostics)); diff != "" {
				t.Errorf("diagnostics: -want +got\n%s", diff)
			}
		})
	}
}

// TestBuildAnyModulePath covers various module paths.
func TestBuildAnyModulePath(t *testing.T) {
	tools := buildtest.Machine(t)
	for _, path := range []string{"hello", "my-site", "example.com/site/v2", "gopkg.in/site.v3", "example.com/UPPER/case_under"} {
		t.Run(path, func(t *testing.T) {
			p := buildtest.Write(t, strings.ReplaceAll(buildtest.Site, "example.com/site", path))
			if _, err := Build(t.Context(), tools, Options{Program: p, Output: filepath.Join(t.TempDir(), "server"), Timeout: buildtest.Timeout}); err != nil {
				t.Error(err)
			}
		})
	}
}
