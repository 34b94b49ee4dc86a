package gotool

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/internal/modproxy"
)

// site is a source of several packages. Its parts begin with a file each.
const site = `
-- go.mod --
module example.com/site

go 1.26
-- handler.go --
package site

import (
	"net/http"

	"example.com/site/pages"
)

func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte(pages.Home())) }
-- pages/pages.go --
package pages

import "example.com/site/internal/text"

func Home() string { return text.Upper("home") }
-- internal/text/text.go --
package text

import "strings"

func Upper(s string) string { return strings.ToUpper(s) }
`

// TestBuildReportsEveryPackage has mistakes in packages that other ones import.
func TestBuildReportsEveryPackage(t *testing.T) {
	toolchain, err := Find(t.Context(), append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		t.Fatal(err)
	}
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
		"Setting":     {"go 1.26\n", "go 1.26\n\ngodebug nonsense=1\n", "go.mod:1:1: go.mod: unknown godebug \"nonsense\", remove it"},
		"NoStandard":  {"import \"strings\"", "import (\n\t\"strings\"\n\t_ \"fmtt\"\n)", "internal/text/text.go:5:2: package fmtt is not in std"},
		"Explanation": {"func Home() string {", "type T struct{}\n\nfunc (T) Read() {}\n\nvar _ interface{ Read(int) } = T{}\n\nfunc Home() string {", "pages/pages.go:9:32: cannot use T{} (value of struct type T) as interface{Read(int)} value in variable declaration: T does not implement interface{Read(int)} (wrong type for method Read); have Read(); want Read(int)"},
		"Many":        {"func Home", many + "func Home", wantMany},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(site, c.old) {
				t.Fatalf("the source has no %q", c.old)
			}
			p := write(t, strings.Replace(site, c.old, c.new, 1))
			_, err := toolchain.Build(t.Context(), Build{Program: p, Output: filepath.Join(t.TempDir(), "server"), Timeout: fetchTimeout})
			if diff := cmp.Diff(c.want+"\n", render(err)); diff != "" {
				t.Errorf("diagnostics: -want +got\n%s", diff)
			}
		})
	}
}

// TestBuildAnyModulePath has the names that people give to modules.
func TestBuildAnyModulePath(t *testing.T) {
	toolchain, err := Find(t.Context(), append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"hello", "my-site", "example.com/site/v2", "gopkg.in/site.v3", "example.com/UPPER/case_under"} {
		t.Run(path, func(t *testing.T) {
			p := write(t, strings.ReplaceAll(site, "example.com/site", path))
			if _, err := toolchain.Build(t.Context(), Build{Program: p, Output: filepath.Join(t.TempDir(), "server"), Timeout: fetchTimeout}); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBuildReportsDependency has a module that does not compile.
func TestBuildReportsDependency(t *testing.T) {
	proxy := new(modproxy.Proxy)
	broken := strings.Replace(greeter, "return ", "return 1 + ", 1)
	if err := proxy.Add("example.com/greeter", "v1.0.0", []byte(broken)); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(proxy)
	defer server.Close()
	const want = "go.mod:5:1: example.com/greeter@v1.0.0 does not compile here, require another version of it: greeter.go:3:30: "
	for name, toolchain := range map[string]*Toolchain{
		"Image":   machine(t, server.URL),
		"Machine": workbench(t, "GOPROXY="+server.URL, "GOSUMDB=off", "GOFLAGS=-modcacherw"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetchAndBuild(t, toolchain, write(t, greetingSource(t, proxy)), nil)
			if _, ok := errors.AsType[*CompileError](err); !ok || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), os.TempDir()) {
				t.Errorf("Build: %v, want %s", err, want)
			}
		})
	}
}
