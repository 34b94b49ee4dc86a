package compile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

const (
	plainFile  = "-- handler.go --\n" + buildtest.Hello
	moduleFile = "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n"
)

// TestBuildTestsErrorsWithoutModule checks errors in tests of sources without a go.mod. The author
// has to act, so they must have a position.
func TestBuildTestsErrorsWithoutModule(t *testing.T) {
	tools := buildtest.Machine(t)
	cases := map[string]struct{ source, want string }{
		"Main":         {"-- a_test.go --\npackage handlers" + passing + "-- b_test.go --\npackage handlers\n\nimport \"testing\"\n\ntype T struct{ *testing.T }\n\nfunc TestHandler(t *T) {}\n", "b_test.go:7:1: cannot use _test.TestHandler (value of type func(t *handlers.T)) as func(*testing.T) value in struct literal"},
		"ExternalMain": {"-- b_test.go --\npackage handlers_test\n\nimport \"testing\"\n\ntype T struct{ *testing.T }\n\nfunc TestHandler(t *T) {}\n", "b_test.go:7:1: cannot use _xtest.TestHandler (value of type func(t *handlers_test.T)) as func(*testing.T) value in struct literal"},
		"External":     {"-- a_test.go --\npackage handlers_test" + passing + "\nvar x int = nil\n", "a_test.go:7:13: cannot use nil as int value in variable declaration"},
		"Linkname":     {"-- a_test.go --\npackage handlers_test\n\nimport (\n\t\"testing\"\n\t_ \"unsafe\"\n)\n\n//go:linkname f runtime.nosuch\nfunc f()\n\nfunc TestF(t *testing.T) { f() }\n", "a_test.go:1:1: the program cannot be linked: goless.io/function/handler_test.TestF: relocation target runtime.nosuch not defined"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := buildTests(t, tools, plainFile+c.source, Options{})
			if found, ok := errors.AsType[*handler.Error](err); !ok || !found.Compiled || err.Error() != c.want {
				t.Errorf("error %T: %v, want %s", err, err, c.want)
			}
		})
	}
}

// TestBuildTestsKeepsMistakes checks that mistakes in one package are reported if the tests of another
// one exceed a limit, and that the numbers of omitted diagnostics are added.
func TestBuildTestsKeepsMistakes(t *testing.T) {
	tools := buildtest.Machine(t)
	const mistake = "-- a/a_test.go --\npackage a" + passing
	mistakes := mistake + strings.Repeat("var _ int = nil\n", 150)
	for name, c := range map[string]struct {
		source  string
		limits  Options
		omitted int
	}{
		"Limit":   {mistake + "var _ int = nil\n-- b/a_test.go --\npackage b\n\nimport \"testing\"\n\nvar x = [64 << 20]byte{1}\n\nfunc TestF(t *testing.T) { t.Log(&x) }\n", Options{space: 32 << 20}, 0},
		"Omitted": {mistakes + "-- b/a_test.go --\npackage b" + passing + "var _ int = nil\n", Options{}, 51},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := buildTests(t, tools, moduleFile+plainFile+c.source, c.limits)
			found, ok := errors.AsType[*handler.Error](err)
			if !ok || found.Diagnostics[0].String() != "a/a_test.go:6:13: cannot use nil as int value in variable declaration" || found.Omitted != c.omitted {
				t.Errorf("error %T: %v", err, err)
			}
		})
	}
}

// packagesWithTests returns a source with tests in several packages.
func packagesWithTests(count int) string {
	source := moduleFile + plainFile
	for i := range count {
		source += fmt.Sprintf("-- p%d/a_test.go --\npackage p", i) + passing
	}
	return source
}

// TestBuildTestsLimitsOfAll checks limits that all packages share.
func TestBuildTestsLimitsOfAll(t *testing.T) {
	tools := buildtest.Machine(t)
	started := time.Now()
	binary, err := buildTests(t, tools, packagesWithTests(1), Options{})
	if err != nil {
		t.Fatal(err)
	}
	timeout := 2 * time.Since(started)
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		limits Options
		count  int
		want   error
	}{
		"One":     {Options{maxTests: info.Size()}, 1, nil},
		"Size":    {Options{maxTests: info.Size()}, 2, sandbox.ErrTooLarge},
		"Timeout": {Options{Timeout: timeout}, 16, ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := buildTests(t, tools, packagesWithTests(c.count), c.limits)
			if !errors.Is(err, c.want) && (name != "Timeout" || !errors.Is(err, ErrBusy)) {
				t.Errorf("BuildTests: %v, want %v", err, c.want)
			}
		})
	}
}

// TestBuildTestsOfAllKinds compiles TestMain, a fuzz test with a corpus and examples with only what
// the image has, and runs them.
func TestBuildTestsOfAllKinds(t *testing.T) {
	const source = plainFile + "-- a_test.go --\npackage handlers\n\nimport (\n\t\"fmt\"\n\t\"os\"\n\t\"testing\"\n)\n\n" +
		"var seen int\n\n" +
		"func TestMain(m *testing.M) {\n\tcode := m.Run()\n\tfmt.Println(\"ok fuzz \", seen, \"\")\n\tos.Exit(code)\n}\n\n" +
		"func FuzzF(f *testing.F) {\n\tf.Add(1)\n\tf.Fuzz(func(t *testing.T, n int) { seen += n })\n}\n\n" +
		"func Example() {\n\tfmt.Println(\"x\")\n\t// Output: x\n}\n\n" +
		"-- testdata/fuzz/FuzzF/a --\ngo test fuzz v1\nint(41)\n"
	binary, err := buildTests(t, planned(t), source, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := passed(t, binary); got != "ok fuzz  42 ok   ." {
		t.Errorf("passed: %q", got)
	}
}

// TestBuildTestsReproducibleWithCache checks that cached dependencies do not change the binary.
func TestBuildTestsReproducibleWithCache(t *testing.T) {
	buildtest.RequireStatic(t)
	const source = moduleFile + plainFile + "-- a_test.go --\npackage handlers" + passing
	tools := planned(t)
	var binaries [][]byte
	build := func(tools *toolchain.Toolchain, b Options) {
		t.Helper()
		binary, err := buildTests(t, tools, source, b)
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(binary)
		if err != nil {
			t.Fatal(err)
		}
		binaries = append(binaries, data)
	}
	build(buildtest.Machine(t), Options{}) // compiles with the cache of the go command alone
	build(tools, Options{})
	dependencies := t.TempDir()
	if err := os.Mkdir(toolchain.PackageCache(dependencies), 0o700); err != nil {
		t.Fatal(err)
	}
	withCache := *tools
	withCache.Dependencies = dependencies
	build(&withCache, Options{})
	for i, binary := range binaries[1:] {
		if !bytes.Equal(binary, binaries[0]) {
			t.Errorf("binary %d differs from binary 0", i+1)
		}
	}
}

// TestTestsFingerprint checks that the arguments of the go command are part of the fingerprint.
func TestTestsFingerprint(t *testing.T) {
	before := TestsFingerprint()
	saved := testCommand
	t.Cleanup(func() { testCommand = saved })
	testCommand = append(slices.Clip(testCommand), "-cover")
	if TestsFingerprint() == before || !strings.Contains(before, "test -c -vet=off") || !strings.HasPrefix(before, "packages "+selection+",") || strings.Contains(before, "\n") {
		t.Errorf("the fingerprints %q and %q", before, TestsFingerprint())
	}
}
