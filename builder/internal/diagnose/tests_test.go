package diagnose

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/toolchain"
)

// TestExplainTests reads outputs about the packages that the go command makes for tests.
func TestExplainTests(t *testing.T) {
	const path = "goless.io/function/handler"
	cases := map[string]struct{ unit, output, want string }{
		"Crash":         {path + "_test [" + path + ".test]", "internal compiler error: x\n", "b_test.go:1:1: the compiler failed, which is a bug in Go, not in the function; rewrite this code differently: x\n"},
		"CrashOfTested": {path + " [" + path + ".test]", "panic: x\n\tcmd/compile/internal/x.go:1\n", "b_test.go:1:1: the compiler failed, which is a bug in Go, not in the function; rewrite this code differently: panic: x\n"},
		"Generated":     {path + "_test [" + path + ".test]", "a.y:7:1: undefined: x\n", "b_test.go:1:1: a.y:7:1: undefined: x\n"},
		"Main":          {path + ".test", "$WORK/b001/_testmain.go:23:18: cannot use _test.TestA (value of type func()) as func(*testing.T)\n", "a_test.go:3:1: cannot use _test.TestA (value of type func()) as func(*testing.T)\n"},
		"MainUnknown":   {path + ".test", "$WORK/b001/_testmain.go:23:18: undefined: _xtest.TestB\n", "b_test.go:1:1: undefined: _xtest.TestB\n"},
		"Setup":         {path, "x is wrong\nFAIL " + path + " [setup failed]\n", "b_test.go:1:1: the tests cannot be compiled: x is wrong; FAIL " + path + " [setup failed]\n"},
		"Other":         {"net/http", "panic: x\n\tcmd/compile/internal/x.go:1\n", "no diagnostics: the go command failed: panic: x; \tcmd/compile/internal/x.go:1\n"},
		"OtherTests":    {"net/http.test", "internal compiler error: x\n", "no diagnostics: the go command failed: internal compiler error: x\n"},
		"Trouble":       {path + "_test [" + path + ".test]", "a.y:7:1: no space left on device\n", "no diagnostics: the go command failed: a.y:7:1: no space left on device\n"},
	}
	source := "-- handler.go --\n" + buildtest.Hello + "-- a_test.go --\npackage handlers\n\nfunc TestA() {}\n-- b_test.go --\npackage handlers\n"
	tools := &toolchain.Toolchain{Root: "/go", Cache: "/cache", Modules: "/mod"}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := ended(t)
			for line := range strings.Lines(c.output) {
				event, err := json.Marshal(map[string]string{"ImportPath": c.unit, "Action": "build-output", "Output": line})
				if err != nil {
					t.Fatal(err)
				}
				r.Stdout.Write(event)
			}
			if got := render(ExplainTests(tools, buildtest.Write(t, source), r, errors.New("exit status 1"), "b_test.go")); got != c.want {
				t.Errorf("ExplainTests: %swant %s", got, c.want)
			}
		})
	}
}
