package builder_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"goless.io/builder"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/toolchain"
)

// testingModules returns a source that needs a module only in its tests, which are in two packages.
func testingModules(t *testing.T, marker string) []byte {
	t.Helper()
	all := txtar.Parse([]byte(requiring(t, "")))
	all.Files = slices.DeleteFunc(all.Files, func(f txtar.File) bool { return f.Name == "handler.go" })
	all.Files = append(all.Files, txtar.File{Name: "handler.go", Data: []byte(buildtest.Hello + "\nconst Marker = \"" + marker + "\"\n")})
	for _, dir := range []string{"", "router/"} {
		name := dir + "a_test.go"
		text := "package handlers\n\nimport (\n\t\"testing\"\n\n\t\"github.com/go-chi/chi/v5\"\n)\n\nfunc TestNew(*testing.T) { chi.NewRouter() }\n"
		all.Files = append(all.Files, txtar.File{Name: name, Data: []byte(text)})
	}
	return txtar.Format(all)
}

// TestTestsFetchModules checks that modules of tests are fetched, compiled once for all packages, and
// cached for later builds of tests. The cache does not change the binary.
func TestTestsFetchModules(t *testing.T) {
	image := newImageBuild(t)
	const module = "-p github.com/go-chi/chi/v5 "
	store := openStore(t)
	build := func(tests bool, marker string) (binary string, commands string) {
		t.Helper()
		var trace bytes.Buffer
		b := builder.Builder{Toolchain: image.tools, Timeout: buildtest.Timeout, Tests: tests, Trace: &trace, Dependencies: store, Namespace: "ours"}
		binary = filepath.Join(t.TempDir(), "binary")
		result, err := b.Build(t.Context(), testingModules(t, marker), binary)
		if err != nil {
			t.Fatalf("Build: %v", err)
		}
		t.Logf("tests: %t, built in %s, %d MiB", tests, result.Duration, result.PeakMemory>>20)
		return binary, trace.String()
	}
	build(false, "first") // caches dependencies without the module
	if _, commands := build(true, "first"); strings.Count(commands, module) != 1 {
		t.Errorf("the first build of the tests compiles the module %d times, want once", strings.Count(commands, module))
	}
	cached := store
	store = nil
	uncached, _ := build(true, "second")
	store = cached
	image.emptyProxy(t)
	binary, commands := build(true, "second")
	checkEqual(t, uncached, binary)
	if strings.Contains(commands, module) {
		t.Error("the second build of the tests compiles the module")
	}
	if out, err := exec.CommandContext(t.Context(), binary).CombinedOutput(); err != nil || !strings.Contains(string(out), "ok   ./router ") {
		t.Errorf("the tests: %v\n%s", err, out)
	}
	checkClean(t)
}

// checkEqual checks that two files have the same content.
func checkEqual(t *testing.T, first, second string) {
	t.Helper()
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(second)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("the binaries differ")
	}
}

// TestTestsUncached checks that a build without a store compiles a module only once.
func TestTestsUncached(t *testing.T) {
	image := newImageBuild(t)
	var trace bytes.Buffer
	b := builder.Builder{Toolchain: image.tools, Timeout: buildtest.Timeout, Tests: true, Trace: &trace}
	if _, err := b.Build(t.Context(), testingModules(t, ""), filepath.Join(t.TempDir(), "tests")); err != nil {
		t.Fatal(err)
	}
	if count := strings.Count(trace.String(), "-p github.com/go-chi/chi/v5 "); count != 1 {
		t.Errorf("the module is compiled %d times, want once", count)
	}
}

// TestTestsInImage compiles the tests of a function with the contents of the image alone. It must
// not compile the standard library.
func TestTestsInImage(t *testing.T) {
	tools, err := toolchain.Find(t.Context(), []string{"KO_DATA_PATH=" + buildtest.Image(t), "GOPROXY=off"})
	if err != nil {
		t.Fatal(err)
	}
	const source = "-- handler.go --\n" + buildtest.Hello + "-- a_test.go --\npackage handlers_test\n\nimport (\n\t\"net/http\"\n\t\"net/http/httptest\"\n\t\"testing\"\n\t\"testing/fstest\"\n\n\thandlers \"goless.io/function/handler\"\n)\n\nvar _ fstest.MapFS\n\nfunc TestHandler(t *testing.T) {\n\thandlers.Handler(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, \"/\", nil))\n}\n\n" +
		"func TestMain(m *testing.M) { m.Run() }\n\nfunc FuzzF(f *testing.F) { f.Fuzz(func(*testing.T, []byte) {}) }\n\nfunc Example() {\n\t// Output:\n}\n"
	var trace bytes.Buffer
	output := filepath.Join(t.TempDir(), "tests")
	b := builder.Builder{Toolchain: tools, Tests: true, Trace: &trace}
	result, err := b.Build(t.Context(), []byte(source), output)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(output)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("built in %s, %d MiB of memory, %d bytes", result.Duration, result.PeakMemory>>20, info.Size())
	for line := range strings.Lines(trace.String()) {
		_, args, ok := strings.Cut(line, "/compile -o ")
		_, args, _ = strings.Cut(args, " -p ")
		name, _, _ := strings.Cut(args, " ")
		if ok && !slices.Contains([]string{"goless.io/function/handler", "goless.io/function/handler_test", "main"}, name) {
			t.Errorf("%s is compiled", name)
		}
	}
	if out, err := exec.CommandContext(t.Context(), output).CombinedOutput(); err != nil {
		t.Errorf("the tests: %v\n%s", err, out)
	}
}

// TestFingerprintOfTests checks that the runner is part of the fingerprint only if tests are built.
func TestFingerprintOfTests(t *testing.T) {
	b := builder.Builder{Toolchain: &toolchain.Toolchain{Version: "go1.27.4"}}
	function := b.Fingerprint()
	b.Tests = true
	if tests := b.Fingerprint(); !strings.HasPrefix(tests, function+" tests ") || len(tests) < len(function)+64 {
		t.Errorf("the fingerprints %q and %q", function, tests)
	}
}
