package compile

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// plan is the plan for programs with the imports of these tests. Creating it takes seconds, so all
// tests share it.
var plan struct {
	sync.Once
	data []byte
}

func makePlan(t *testing.T) []byte {
	t.Helper()
	tools := buildtest.Machine(t)
	p := buildtest.Write(t, "package p\n\nimport (\n\t\"fmt\"\n\t\"net/http\"\n\t\"text/template\"\n\n\t_ \"goless.io/runtime/otlp\"\n)\n\nvar _ = fmt.Sprint(template.New(\"\"))\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n")
	var made *Plan
	for range 2 { // the second build uses the packages that the first has cached
		var err error
		if made, err = MakePlan(t.Context(), tools, p); err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// planned returns the installed toolchain, sealed like that of an image, with the plan.
func planned(t *testing.T) *toolchain.Toolchain {
	t.Helper()
	plan.Do(func() { plan.data = makePlan(t) })
	tools := buildtest.Machine(t)
	tools.Plan = filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(tools.Plan, plan.data, 0o600); err != nil {
		t.Fatal(err)
	}
	tools.Sealed, tools.Network = true, nil
	return tools
}

const templated = `package handlers

import (
	"fmt"
	"net/http"
	"text/template"
	"unsafe"
)

var page = template.Must(template.New("page").Parse("{{.}}"))

func Handler(w http.ResponseWriter, r *http.Request) {
	fmt.Errorf("nobody looks at %d", unsafe.Sizeof(w))
	_ = page.Execute(w, r.URL.Path)
}
`

const withModule = `-- go.mod --
module example.com/m

go 1.26
-- a.go --
package m

import (
	"net/http"

	"example.com/m/b"
)

func Handler(w http.ResponseWriter, r *http.Request) { b.F(1) }
-- b/b.go --
package b

func F(x int) { x = x }
`

// TestDirectBuild compares the binaries of a direct build and of the go command byte by byte.
func TestDirectBuild(t *testing.T) {
	tools := planned(t)
	for name, c := range map[string]struct {
		source   string
		direct   bool
		warnings string
	}{
		"Smallest":  {buildtest.Hello, true, ""},
		"Templated": {templated, true, "handler.go:13:2: result of fmt.Errorf call not used (unusedresult)"},
		"Traced":    {strings.Replace(buildtest.Hello, "import ", "import _ \"goless.io/runtime/otlp\"\nimport ", 1), true, ""},
		"Files":     {"-- a.go --\n" + buildtest.Hello + "-- b.go --\npackage handlers\n\nfunc f(x int) { x = x }\n-- b_test.go --\npackage handlers\n\nvar x int = nil\n", true, "b.go:3:17: self-assignment of x (assign)"},
		"Module":    {withModule, false, "b/b.go:3:17: self-assignment of x (assign)"},
	} {
		t.Run(name, func(t *testing.T) {
			p := buildtest.Write(t, c.source)
			if got := newDirect(tools, Options{Program: p}, workspace{}) != nil; got != c.direct {
				t.Fatalf("it can be built directly: %t, want %t", got, c.direct)
			}
			byGo := *tools
			byGo.Plan = ""
			if !bytes.Equal(buildAndVet(t, tools, p, c.warnings), buildAndVet(t, &byGo, p, c.warnings)) {
				t.Error("the plan makes another binary than the go command")
			}
		})
	}
}

// buildAndVet returns the binary after checking the warnings.
func buildAndVet(t *testing.T, tools *toolchain.Toolchain, p *program.Program, warnings string) []byte {
	t.Helper()
	output := filepath.Join(t.TempDir(), "server")
	result, err := Build(t.Context(), tools, Options{Program: p, Output: output, Timeout: time.Minute, Vet: true, vetTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(warnings, text(result.Warnings)); diff != "" || result.VetError != nil {
		t.Errorf("warnings: %v, -want +got\n%s", result.VetError, diff)
	}
	binary, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func text(diagnostics []handler.Diagnostic) string {
	var lines []string
	for _, d := range diagnostics {
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n")
}

// TestDirectLeavesTheRest checks that programs are left to the go command if it reports errors or
// the plan does not suffice.
func TestDirectLeavesTheRest(t *testing.T) {
	tools := planned(t)
	const rest = "\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n"
	for name, source := range map[string]string{
		"Unknown": "package p\n\nimport _ \"net/smtp\"\nimport \"net/http\"" + rest, // not in this plan
		"Embed":   "-- a.go --\npackage p\n\nimport (\n\t_ \"embed\"\n\t\"net/http\"\n)\n\n//go:embed a.txt\nvar s string" + rest + "-- a.txt --\na\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := Options{Program: buildtest.Write(t, source), Output: filepath.Join(t.TempDir(), "server"), Timeout: time.Minute}
			if newDirect(tools, b, workspace{}) != nil {
				t.Error("it is built directly")
			}
			if _, err := Build(t.Context(), tools, b); err != nil {
				t.Errorf("Build: %v", err)
			}
		})
	}
}

// TestDirectErrors checks that errors are those of the go command: all of them, in the author's
// lines.
func TestDirectErrors(t *testing.T) {
	tools := planned(t)
	b := Options{
		Program: buildtest.Write(t, buildtest.Hello+"\nvar x int = nil\n\nvar y string = 1\n"),
		Output:  filepath.Join(t.TempDir(), "server"), Timeout: time.Minute, Vet: true,
	}
	_, err := Build(t.Context(), tools, b)
	want := "handler.go:7:13: cannot use nil as int value in variable declaration\nhandler.go:9:16: cannot use 1 (untyped int constant) as string value in variable declaration"
	if err == nil || err.Error() != want {
		t.Errorf("Build: %v, want %s", err, want)
	}
	if _, _, err := Vet(t.Context(), tools, b); err == nil || err.Error() != want {
		t.Errorf("Vet: %v, want %s", err, want)
	}
}

func TestMayImport(t *testing.T) {
	for _, c := range []struct {
		importer, imported string
		want               bool
	}{
		{"example.com/m", "fmt", true},
		{"example.com/m", "internal/abi", false},
		{"example.com/m", "net/http/internal", false},
		{"example.com/m", "goless.io/runtime/internal/exchange", false},
		{"example.com/m", "example.com/m/internal", true},
		{"example.com/m/a/b", "example.com/m/internal/c", true},
		{"example.com/m/a", "example.com/m/a/internal", true},
		{"example.com/m", "example.com/m/a/internal", false},
		{"example.com/m/ab", "example.com/m/a/internal/c", false},
		{"example.com/m/internal/a", "example.com/m/internal/b/internal/c", false},
	} {
		if got := mayImport(c.importer, c.imported); got != c.want {
			t.Errorf("mayImport(%s, %s) = %t", c.importer, c.imported, got)
		}
	}
}
