package compile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/internal/buildtest"
)

func TestVet(t *testing.T) {
	tools := planned(t)
	b := Options{Program: buildtest.Write(t, templated), Timeout: time.Minute}
	findings, omitted, err := Vet(t.Context(), tools, b)
	if err != nil || omitted > 0 {
		t.Fatalf("%d findings are left out, error %v", omitted, err)
	}
	if diff := cmp.Diff("handler.go:13:2: result of fmt.Errorf call not used (unusedresult)", text(findings)); diff != "" {
		t.Errorf("findings: -want +got\n%s", diff)
	}
}

// TestVetNamesTypes checks a finding about one of the author's types, whose package path only the
// builder knows.
func TestVetNamesTypes(t *testing.T) {
	source := strings.Replace(buildtest.Hello, "import", "import \"sync\"\nimport", 1) + "\ntype lock struct{ sync.Mutex }\n\nfunc (lock) f() {}\n"
	findings, _, err := Vet(t.Context(), planned(t), Options{Program: buildtest.Write(t, source), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("handler.go:10:7: f passes lock by value: lock (copylocks)", text(findings)); diff != "" {
		t.Errorf("findings: -want +got\n%s", diff)
	}
}

// TestVetPackages checks findings in several packages. Facts about a function are available to
// importers.
func TestVetPackages(t *testing.T) {
	const source = `-- go.mod --
module example.com/m

go 1.26
-- a.go --
package m

import (
	"fmt"
	"net/http"

	"example.com/m/internal/log"
	"example.com/m/internal/text"
)

func Handler(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%d", "x")
	log.Logf("%d", text.Upper("x"))
}
-- internal/log/log.go --
package log

import "fmt"

func Logf(format string, args ...any) { fmt.Printf(format, args...) }
-- internal/text/text.go --
package text

func Upper(s string) string { s = s; return s }
-- unused/unused.go --
package unused

func f(x int) { x = x }
`
	findings, _, err := Vet(t.Context(), buildtest.Machine(t), Options{Program: buildtest.Write(t, source), Timeout: buildtest.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	want := `a.go:12:18: fmt.Fprintf format %d has arg "x" of wrong type string (printf)
a.go:13:12: example.com/m/internal/log.Logf format %d has arg text.Upper("x") of wrong type string (printf)
internal/text/text.go:3:31: self-assignment of s (assign)`
	if diff := cmp.Diff(want, text(findings)); diff != "" {
		t.Errorf("findings: -want +got\n%s", diff)
	}
}

// TestVetIsBounded vets sources that never end, or that exhaust memory or disk: the first is
// cancelled, the others exceed their limit.
func TestVetIsBounded(t *testing.T) {
	tools := planned(t)
	link, err := ReadPlan(tools.Plan)
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	for path, name := range link.Packages {
		exports[path] = filepath.Join(tools.Cache, name)
	}
	for name, c := range map[string]struct {
		source  string
		memory  int64 // of the build
		space   int64 // of the build
		timeout time.Duration
		want    string
	}{
		"Small":  {buildtest.Hello, 1 << 20, 0, time.Minute, "running go vet"},
		"Time":   {buildtest.Hello + "\ntype I[T any] interface{ M() interface{ I[*T] } }\n", 0, 0, time.Second, errVetTimeout.Error()},
		"Memory": {buildtest.Hello + "\ntype pair[A, B any] struct{ a A; b B }\n\ntype t = pair[int, int]\n" + doubled(28), 0, 0, time.Minute, "memory"},
		"Disk":   {buildtest.Hello, 0, 1, time.Minute, "on disk"},
	} {
		t.Run(name, func(t *testing.T) {
			p := buildtest.Write(t, c.source)
			exports[p.Path] = "compiled"
			findings, err := startVet(t.Context(), tools, Options{Program: p, Memory: c.memory, space: c.space, vetTimeout: c.timeout}, workspaceOf(t), exports).wait()
			if err == nil || len(findings) > 0 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("vet: %v, %v, want %s", findings, err, c.want)
			}
		})
	}
}

func workspaceOf(t *testing.T) workspace {
	t.Helper()
	w, err := newWorkspace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.remove)
	return w
}

// TestVetPanics checks that a panic in the builder does not end other builds.
func TestVetPanics(t *testing.T) {
	const want = "the builder panicked"
	v := startVet(t.Context(), buildtest.Machine(t), Options{}, workspaceOf(t), nil) // nil Program
	if _, err := v.wait(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("vet: %v, want %s", err, want)
	}
}

// TestVetLeavesOut vets a source with more findings than the maximum.
func TestVetLeavesOut(t *testing.T) {
	source := buildtest.Hello + "\nfunc f(x int) {\n" + strings.Repeat("\tx = x\n", maxWarnings+50) + "}\n"
	findings, omitted, err := Vet(t.Context(), planned(t), Options{Program: buildtest.Write(t, source), Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if len(findings) != maxWarnings || omitted != 50 || findings[0].Line != 8 {
		t.Errorf("%d findings, and %d are left out, want the first %d and 50:\n%s", len(findings), omitted, maxWarnings, text(findings))
	}
}

// TestBuildTellsOfMissingWarnings has no time for go vet.
func TestBuildTellsOfMissingWarnings(t *testing.T) {
	result, err := Build(t.Context(), planned(t), Options{
		Program: buildtest.Write(t, templated), Output: filepath.Join(t.TempDir(), "server"), Timeout: time.Minute, Vet: true, vetTimeout: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	if result.VetError == nil || len(result.Warnings) > 0 {
		t.Errorf("the warnings are %v, and missing because of %v", result.Warnings, result.VetError)
	}
}

// TestFindingsAreBounded reads the findings about a hostile source, and those of an analyzer that
// failed.
func TestFindingsAreBounded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "findings")
	for text, want := range map[string]int{
		`{"m": {"assign": [{"posn": "/m/a.go:3:4", "message": "x"}], "printf": {"error": "it has failed"}}}`:  1,
		`{"m": {"assign": [{"posn": "/m/a.go:3:4", "message": "` + strings.Repeat("x", maxFindings) + `"}]}}`: 0,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		findings, err := readFindings(file, "/m")
		if len(findings) != want || (err == nil) != (want > 0) {
			t.Errorf("%.80s: %v, %v, want %d findings", text, findings, err, want)
		}
	}
}

// doubled declares types, each with a name twice as long as the previous one.
func doubled(n int) string {
	var b strings.Builder
	for i := range n {
		shorter := "t" + strings.Repeat("_", i)
		b.WriteString("type " + shorter + "_ = pair[" + shorter + ", " + shorter + "]\n")
	}
	return b.String() + "\nvar x t" + strings.Repeat("_", n) + "\n"
}

// TestVetConfigs checks that go vet reads those of the author's packages that are in the binary,
// including one that only another module imports.
func TestVetConfigs(t *testing.T) {
	p := buildtest.Write(t, withModule+"-- c/c.go --\npackage c\n-- d/d.go --\npackage d\n")
	configs, err := vetConfigs(buildtest.Machine(t), p, t.TempDir(), map[string]string{"example.com/m": "1", "example.com/m/b": "2", "example.com/m/d": "3", "net/http": "4"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range configs {
		got = append(got, c.ImportPath)
	}
	if diff := cmp.Diff([]string{"example.com/m/b", "example.com/m", "example.com/m/d"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
