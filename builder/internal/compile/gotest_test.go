package compile

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"goless.io/builder/internal/buildtest"
)

const tested = `
-- handler.go --
package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) }
-- handler_test.go --
package handlers

import (
	"net/http/httptest"
	"os"
	"testing"
)

func TestHandler(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(w, httptest.NewRequest("GET", "/", nil))
	if want := os.Getenv("WANT"); w.Body.String() != want {
		t.Errorf("got %q, want %q", w.Body, want)
	}
}

func TestOther(t *testing.T) {}
`

func TestTest(t *testing.T) {
	tools := buildtest.Machine(t)
	cases := map[string]struct {
		source, want string
		args         []string
		says         []string
		failed       bool
	}{
		"Passes":    {source: tested, want: "hello", args: []string{"-v", "-cover"}, says: []string{"--- PASS: TestHandler", "coverage: 100.0% of statements"}},
		"Fails":     {source: tested, want: "other", says: []string{"    handler_test.go:13: got \"hello\", want \"other\"", "FAIL\thandlers\t"}, failed: true},
		"Run":       {source: tested, want: "other", args: []string{"-v", "-run=Other"}, says: []string{"--- PASS: TestOther", "ok  \thandlers\t"}},
		"Compile":   {source: strings.Replace(tested, "w.Body.String()", "w.Bod", 1), says: []string{"\nhandler_test.go:12:", "w.Bod undefined", "FAIL\thandlers [build failed]"}, failed: true},
		"Module":    {source: tested + "-- go.mod --\nmodule example.com/mine\n-- sub/sub.go --\npackage sub\n-- sub/sub_test.go --\npackage sub\n\nimport \"testing\"\n\nfunc TestSub(t *testing.T) { t.Fatal(\"no\") }\n", want: "hello", says: []string{"ok  \texample.com/mine\t", "    sub/sub_test.go:5: no", "FAIL\texample.com/mine/sub\t"}, failed: true},
		"SubErrors": {source: tested + "-- go.mod --\nmodule example.com/mine\n-- sub/sub_test.go --\npackage sub\n\nvar x int = nil\n", want: "hello", says: []string{"\nsub/sub_test.go:3:13: cannot use nil"}, failed: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := Test(t.Context(), tools, TestOptions{Program: buildtest.Write(t, c.source), Args: c.args, Environ: []string{"WANT=" + c.want}, Stdout: &out, Stderr: &out})
			if failed := errors.Is(err, ErrTestFailed); failed != c.failed || !failed && err != nil {
				t.Errorf("Test: %v, want ErrTestFailed: %t", err, c.failed)
			}
			checkSays(t, "\n"+out.String(), c.says)
		})
	}
}

func checkSays(t *testing.T, output string, all []string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(output, want) {
			t.Errorf("the output lacks %q:\n%s", want, output)
		}
	}
	if strings.Contains(output, os.TempDir()) || strings.Contains(output, "goless.io") {
		t.Errorf("the output names what is not the author's:\n%s", output)
	}
}
