package handler_test

import (
	"strings"
	"testing"

	"goless.io/builder/handler"
)

// TestCheckTests checks the rules that apply to tests only if they are compiled: Parse accepts all of
// these sources.
func TestCheckTests(t *testing.T) {
	const source = moduleFile + "-- handler.go --\n" + hello
	cases := map[string]struct{ files, want string }{
		"Valid":       {"-- a_test.go --\npackage handlers_test\n\nimport (\n\t\"testing\"\n\n\t_ \"example.com/hello\"\n\t_ \"goless.io/runtime\"\n)\n\n//line up here\nfunc TestF(*testing.T) {}\n", ""},
		"Linkname":    {"-- a_test.go --\npackage handlers\n\nimport _ \"unsafe\"\n\n//go:linkname now time.now\n", ""},
		"Elsewhere":   {"-- a_test.go --\npackage handlers\n-- testdata/a.c --\n-- _b/a.s --\n-- .a.c --\n", ""},
		"Assembly":    {"-- b/a_test.go --\npackage b\n-- b/a.s --\n-- b/c.c --\n-- b/o.syso --\n", "b/a.s:1:1: cannot build a.s: *"},
		"Cgo":         {"-- a_test.go --\npackage handlers\n\n//go:cgo_ldflag \"-lx\"\n", "a_test.go:3:1: cgo directives are not allowed, *"},
		"Line":        {"-- a_test.go --\npackage handlers\n\n//line b.go:1\n", "a_test.go:3:1: line directives are not allowed, *"},
		"LineComment": {"-- a_test.go --\npackage handlers\n\nvar x = /*line b.go:1:2*/ 1\n", "a_test.go:3:9: line directives are not allowed, *"},
		"Import":      {"-- a_test.go --\npackage handlers\n\nimport \"go.uber.org/zap\"\n", "a_test.go:3:8: cannot import \"go.uber.org/zap\": go.mod requires no module that contains it; *"},
		"Internal":    {"-- a_test.go --\npackage handlers\n\nimport \"goless.io/runtime/internal/x\"\n", "a_test.go:3:8: cannot import \"goless.io/runtime/internal/x\": it is part of the generated program; *"},
		"Unparsed":    {"-- testdata/b/b.go --\npackage b\n-- a_test.go --\npackage handlers\n\nimport \"example.com/hello/testdata/b\"\n", "a_test.go:3:8: cannot import \"example.com/hello/testdata/b\": the source contains no package in testdata/b"},
		"Syntax":      {"-- a_test.go --\npackage handlers\n\nimport \"C\"\n\nfunc f() { ) }\n", "a_test.go:3:8: cannot import \"C\": *"},
		"Clause":      {"-- a_test.go --\nnothing\n", ""},
		"Deep":        {"-- a_test.go --\npackage handlers\n\nvar x = " + strings.Repeat("(", 100_000) + "\n", "a_test.go:3:1009: nested deeper than 1000 levels; split it"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := handler.Parse(handler.Filename, []byte(source+c.files))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := handler.CheckTests(s, "example.com/hello", []string{"a_test.go", "b/a_test.go"}); err != nil {
				got = err.Error()
			}
			if want, ok := strings.CutSuffix(c.want, "*"); got != c.want && (!ok || !strings.HasPrefix(got, want)) {
				t.Errorf("CheckTests: %s, want %s", got, c.want)
			}
		})
	}
}

// TestCheckTestsOfFile checks tests of a source without a go.mod.
func TestCheckTestsOfFile(t *testing.T) {
	s, err := handler.Parse(handler.Filename, []byte("-- handler.go --\n"+hello+"-- a_test.go --\npackage handlers_test\n\nimport (\n\t_ \"goless.io/function/handler\"\n\t_ \"go.uber.org/zap\"\n)\n"))
	if err != nil {
		t.Fatal(err)
	}
	const want = "a_test.go:5:4: cannot import \"go.uber.org/zap\": without a go.mod only the standard library can be imported; add one with: builder tidy FILE"
	if err := handler.CheckTests(s, "goless.io/function/handler", []string{"a_test.go"}); err == nil || err.Error() != want {
		t.Errorf("CheckTests: %v, want %s", err, want)
	}
}

// TestDeclaresTest compares with what go test runs.
func TestDeclaresTest(t *testing.T) {
	for source, want := range map[string]bool{
		"func TestF(t *testing.T) {}":                       true,
		"func Test(t *testing.T) {}":                        true,
		"func Test_f(t *testing.T) {}":                      true,
		"func TestÉ(t *testing.T) {}":                       true,
		"var x int; func TestF(t *testing.T) {}":            true,
		"\tfunc\tTestF (t *testing.T) {}":                   true,
		"func /* x */ TestF(t *testing.T) {}":               true,
		"func FuzzF(f *testing.F) {}":                       true,
		"func TestMain(t *testing.T) {}":                    true,
		"func TestMain(t *T) {}":                            true,
		"func TestF() {}":                                   true, // the go command reports the signature
		"func ExampleF() {\n\t// Output: x\n}":              true,
		"func Example() {\n\tf() // Unordered output:\n}":   true,
		"func ExampleF() {\n\t// Output:\n}":                true,
		"func TestF(":                                       true, // the compiler reports the syntax
		"var x = " + strings.Repeat("(", 100_000):           true,
		"func ExampleF() {}":                                false,
		"func ExampleF() {\n\t// Output: x\n\tf()\n}":       true,
		"func Examplef() {\n\t// Output: x\n}":              false,
		"func TestMain(m *testing.M) {}":                    false,
		"func TestMain() {}":                                false,
		"func TestdataPath() string { return `x` }":         false,
		"func Testify(t *testing.T) {}":                     false,
		"func Fuzzy() {}":                                   false,
		"func BenchmarkF(b *testing.B) {}":                  false,
		"func (T) TestF(t *testing.T) {}":                   false,
		"var TestF = func(t *testing.T) {}":                 false,
		"var x = `\nfunc TestF(t *testing.T) {}\n`":         false,
		"/*\nfunc TestF(t *testing.T) {}\n*/":               false,
		"":                                                  false,
		strings.Repeat("func ExampleF() {\n}\n", 10_000):    false, // takes less than a second
		strings.Repeat("func helper() { // x\n}\n", 10_000): false,
	} {
		if got := handler.DeclaresTest([]byte("package p\n\n" + source + "\n")); got != want {
			t.Errorf("DeclaresTest = %t, want %t:\n%.200s", got, want, source)
		}
	}
}
