package compile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// buildTests compiles the tests of a source and returns the path of the binary.
func buildTests(t *testing.T, tools *toolchain.Toolchain, source string, b Options) (string, error) {
	t.Helper()
	b.Program, b.Timeout = buildtest.Write(t, source), cmp.Or(b.Timeout, buildtest.Timeout)
	b.Output = filepath.Join(t.TempDir(), "tests")
	packages, err := TestPackages(tools, b.Program)
	if err != nil {
		return "", err
	}
	_, err = BuildTests(t.Context(), tools, b, packages)
	return b.Output, err
}

const passing = "\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) {}\n"

// TestBuildTests compiles the tests of sources, and runs them to find out which they are.
func TestBuildTests(t *testing.T) {
	const module = "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n"
	tools := buildtest.Machine(t)
	cases := map[string]struct{ source, output string }{
		"Plain":    {"-- handler.go --\n" + buildtest.Hello + "-- a_test.go --\npackage handlers" + passing, "ok   ."},
		"External": {"-- handler.go --\n" + buildtest.Hello + "-- a_test.go --\npackage handlers_test\n\nimport (\n\t\"testing\"\n\n\th \"goless.io/function/handler\"\n)\n\nfunc TestF(t *testing.T) { h.Handler(nil, nil) }\n", "ok   ."},
		"Packages": {module + "-- handler.go --\n" + buildtest.Hello + "-- b/c/c_test.go --\npackage c" + passing + "-- internal/a/a.go --\npackage a\n-- internal/a/a_test.go --\npackage a" + passing, "ok   ./b/c ok   ./internal/a"},
		"Internal": {module + "-- internal/f/handler.go --\n" + buildtest.Hello + "-- internal/f/a_test.go --\npackage handlers\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestF(t *testing.T) {\n\tif _, err := os.Stat(\"../../go.mod\"); err != nil {\n\t\tt.Error(err)\n\t}\n}\n", "ok   ./internal/f"},
		"Main":     {module + "-- handler.go --\n" + buildtest.Hello + "-- cmd/a/main.go --\npackage main\n\nfunc main() {}\n-- cmd/a/a_test.go --\npackage main" + passing, "ok   ./cmd/a"},
		"Embedded": {"-- handler.go --\n" + buildtest.Hello + "-- a_test.go --\npackage handlers\n\nimport (\n\t_ \"embed\"\n\t\"testing\"\n)\n\n//go:embed testdata/a.txt\nvar a string\n\nfunc TestF(t *testing.T) {\n\tif a != \"x\\n\" {\n\t\tt.Error(a)\n\t}\n}\n-- testdata/a.txt --\nx\n", "ok   ."},
		"Ignored":  {module + "-- handler.go --\n" + buildtest.Hello + "-- a_test.go --\npackage handlers" + passing + "-- testdata/a_test.go --\nnot Go\n-- _b/a_test.go --\nnot Go\n-- _a_test.go --\nnot Go\n-- c/a_windows_test.go --\npackage c" + passing + "-- d/a_test.go --\npackage d\n\nimport \"testing\"\n\nfunc TestMain(m *testing.M) {}\n", "ok   ."},
		"Vendored": {"-- go.mod --\nmodule example.com/m\n\ngo 1.26\n\nrequire example.com/c v1.0.0\n-- vendor/modules.txt --\n# example.com/c v1.0.0\n## explicit; go 1.26\nexample.com/c\n-- vendor/example.com/c/c.go --\npackage c\n\nfunc F() {}\n-- vendor/example.com/c/c_test.go --\npackage c" + passing + "-- handler.go --\n" + buildtest.Hello + "-- a_test.go --\npackage handlers\n\nimport (\n\t\"testing\"\n\n\t\"example.com/c\"\n)\n\nfunc TestF(t *testing.T) { c.F() }\n", "ok   ."},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			binary, err := buildTests(t, tools, c.source, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := passed(t, binary); got != c.output {
				t.Errorf("passed: %q, want %q", got, c.output)
			}
		})
	}
}

// passed runs the binary of tests and returns what it prints about packages that pass.
func passed(t *testing.T, binary string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "ok ") {
			found = append(found, line[:strings.LastIndex(line, " ")])
		}
	}
	return strings.Join(found, " ")
}

// TestBuildTestsErrors checks that errors in tests have positions in the author's files.
func TestBuildTestsErrors(t *testing.T) {
	const handlerFile = moduleFile + plainFile
	tools := buildtest.Machine(t)
	many := handlerFile
	for i := range MaxTestPackages + 1 {
		many += fmt.Sprintf("-- p%d/a_test.go --\npackage p", i) + passing
	}
	var eleven, wantEleven string
	for i := range 11 {
		eleven += fmt.Sprintf("var v%d int = nil\n", i)
		wantEleven += fmt.Sprintf("\na_test.go:%d:%d: cannot use nil as int value in variable declaration", 6+i, 12+len(fmt.Sprint("v", i)))
	}
	cases := map[string]struct{ source, want string }{
		"None":      {buildtest.Hello, "handler.go:1:1: tests are required, but the source has none; add a _test.go file with a function such as func TestHandler(t *testing.T)"},
		"OnlyMain":  {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\n\nfunc TestMain(m *testing.M) {}\n", "handler.go:1:1: tests are required, but the source has none; add a _test.go file with a function such as func TestHandler(t *testing.T)"},
		"Many":      {many, "handler.go:1:1: the source has tests in 33 packages, at most 32 are supported; move tests into fewer packages"},
		"Type":      {handlerFile + "-- a_test.go --\npackage handlers" + passing + "\nvar x int = nil\n", "a_test.go:7:13: cannot use nil as int value in variable declaration"},
		"All":       {handlerFile + "-- a_test.go --\npackage handlers" + passing + eleven, wantEleven[1:]},
		"External":  {handlerFile + "-- a_test.go --\npackage handlers_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m\"\n)\n\nfunc TestF(t *testing.T) { handlers.F() }\n", "a_test.go:9:37: undefined: handlers.F"},
		"Unused":    {handlerFile + "-- a_test.go --\npackage handlers\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestF(t *testing.T) {}\n", "a_test.go:4:2: \"os\" imported and not used"},
		"Missing":   {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport _ \"example.com/none\"\n\nfunc TestF(t *testing.T) {}\n", "a_test.go:4:10: cannot import \"example.com/none\": go.mod requires no module that contains it; add one with: builder tidy FILE"},
		"Syntax":    {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\n\nfunc TestF(t *testing.T) { ) }\n", "a_test.go:5:28: expected statement, found ')'"},
		"Clause":    {handlerFile + "-- b/a_test.go --\npackage b" + passing + "-- b/b_test.go --\npackage c" + passing, "b/a_test.go:1:1: the tests cannot be compiled: found packages b (a_test.go) and c (b_test.go) in b"},
		"Embed":     {handlerFile + "-- a_test.go --\npackage handlers\n\nimport (\n\t_ \"embed\"\n\t\"testing\"\n)\n\n//go:embed none.txt\nvar s string\n\nfunc TestF(t *testing.T) {}\n", "a_test.go:8:12: pattern none.txt: no matching files found"},
		"Internal":  {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport _ \"internal/abi\"\n\nfunc TestF(t *testing.T) {}\n", "a_test.go:4:10: "},
		"Runtime":   {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport _ \"goless.io/runtime/internal/exchange\"\n\nfunc TestF(t *testing.T) {}\n", "a_test.go:4:10: "},
		"NoStd":     {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport _ \"nosuch\"\n\nfunc TestF(t *testing.T) {}\n", "a_test.go:4:10: "},
		"Own":       {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport _ \"example.com/m/none\"\n\nfunc TestF(t *testing.T) {}\n", "a_test.go:4:10: "},
		"Cycle":     {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport _ \"example.com/m/b\"\n\nfunc TestF(t *testing.T) {}\n-- b/b.go --\npackage b\n\nimport _ \"example.com/m\"\n", "b/b.go:3:10: cannot import \"example.com/m\": import cycle not allowed in test"},
		"Windows":   {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport _ \"example.com/m/b\"\n\nfunc TestF(t *testing.T) {}\n-- b/b.go --\n//go:build windows\n\npackage b\n", "a_test.go:1:1: the tests cannot be compiled: package example.com/m (test); imports example.com/m/b: build constraints exclude all Go files in b"},
		"MainImp":   {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport _ \"example.com/m/b\"\n\nfunc TestF(t *testing.T) {}\n-- b/b.go --\npackage main\n\nfunc main() {}\n", "a_test.go:4:8: "},
		"Cgo":       {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport \"C\"\n\nfunc TestF(t *testing.T) {}\n", "a_test.go:4:8: cannot import \"C\": functions are built without cgo"},
		"Signature": {handlerFile + "-- a_test.go --\npackage handlers\n\nimport _ \"testing\"\n\nfunc TestF() {}\n", "a_test.go:5:1: wrong signature for TestF"},
		"TestMains": {handlerFile + "-- a_test.go --\npackage handlers" + passing + "func TestMain(m *testing.M) {}\n-- b_test.go --\npackage handlers_test\n\nimport \"testing\"\n\nfunc TestMain(m *testing.M) {}\n", "a_test.go:1:1: the tests cannot be compiled: multiple definitions of TestMain"},
		"Linkname":  {handlerFile + "-- a_test.go --\npackage handlers\n\nimport (\n\t\"testing\"\n\t_ \"unsafe\"\n)\n\n//go:linkname f runtime.nosuch\nfunc f()\n\nfunc TestF(t *testing.T) { f() }\n", "a_test.go:1:1: the program cannot be linked: example.com/m.TestF: relocation target runtime.nosuch not defined"},
		"LineDir":   {handlerFile + "-- a_test.go --\npackage handlers" + passing + "//line other.go:7\nvar x int = nil\n", "a_test.go:6:1: line directives are not allowed, because they change the positions of errors; remove this line"},
		"Assembly":  {handlerFile + "-- b/a_test.go --\npackage b" + passing + "-- b/a.s --\n", "b/a.s:1:1: cannot build a.s: functions consist of Go files only; remove the file or move it out of the directory of the package"},
		"Wildcard":  {handlerFile + "-- b...c/a_test.go --\npackage b" + passing, "b...c/a_test.go:1:1: the tests in b...c cannot be compiled: the go command uses ... as a wildcard; rename the directory"},
		"Path":      {handlerFile + "-- b c/a_test.go --\npackage b" + passing, "b c/a_test.go:1:1: the tests in b c cannot be compiled: the import path is invalid: invalid char ' '; rename the directory"},
		"Private":   {handlerFile + "-- a_test.go --\npackage handlers\n\nimport \"testing\"\nimport _ \"go.uber.org/zap\"\n\nfunc TestF(t *testing.T) {}\n", "a_test.go:4:10: cannot import \"go.uber.org/zap\": go.mod requires no module that contains it; add one with: builder tidy FILE"},
		"Two":       {handlerFile + "-- a_test.go --\npackage handlers" + passing + "var x int = nil\n-- b/a_test.go --\npackage b" + passing + "var x int = nil\n", "a_test.go:6:13: cannot use nil as int value in variable declaration\nb/a_test.go:6:13: cannot use nil as int value in variable declaration"},
		"Function":  {handlerFile + "\nvar x int = nil\n-- a_test.go --\npackage handlers" + passing, "handler.go:7:13: cannot use nil as int value in variable declaration"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := buildTests(t, tools, c.source, Options{})
			if _, ok := errors.AsType[*handler.Error](err); !ok || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %T: %v, want %s", err, err, c.want)
			}
		})
	}
}

// TestBuildTestsIsReproducible checks that equal sources result in equal binaries, in a sandbox that
// has no access to the files of this machine.
func TestBuildTestsIsReproducible(t *testing.T) {
	buildtest.RequireStatic(t)
	const source = "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n-- handler.go --\n" + buildtest.Hello + "-- a_test.go --\npackage handlers" + passing + "-- b/a_test.go --\npackage b" + passing
	tools := planned(t)
	var binaries [][]byte
	for range 2 {
		binary, err := buildTests(t, tools, source, Options{})
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		binaries = append(binaries, data)
	}
	if !bytes.Equal(binaries[0], binaries[1]) {
		t.Error("the binaries differ")
	}
}

// TestBuildTestsLimits checks that the limits of a build apply to its tests.
func TestBuildTestsLimits(t *testing.T) {
	const source = "-- handler.go --\n" + buildtest.Hello + "-- a_test.go --\npackage handlers" + passing
	tools := planned(t)
	for name, c := range map[string]struct {
		limits Options
		want   error
	}{
		"Timeout": {Options{Timeout: time.Millisecond}, ErrTimeout},
		"Space":   {Options{space: 1 << 20}, sandbox.ErrTooLarge},
		"Memory":  {Options{Memory: 64 << 20}, sandbox.ErrOutOfMemory},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := buildTests(t, tools, source, c.limits); !errors.Is(err, c.want) && (name != "Timeout" || !errors.Is(err, ErrBusy)) {
				t.Errorf("BuildTests: %v, want %v", err, c.want)
			}
		})
	}
}
