package gotool

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// workbench returns a toolchain that fetches from proxy, as on the machine of a
// person.
func workbench(t *testing.T, network ...string) *Toolchain {
	t.Helper()
	toolchain, err := Find(t.Context(), append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		t.Fatal(err)
	}
	modules, err := runtimeModules()
	if err != nil {
		t.Fatal(err)
	}
	toolchain.Modules = t.TempDir()
	if err := os.CopyFS(toolchain.Modules, os.DirFS(modules)); err != nil {
		t.Fatal(err)
	}
	toolchain.Network = network
	return toolchain
}

func TestTidy(t *testing.T) {
	_, url := serveModules(t)
	toolchain := workbench(t, "GOPROXY="+url, "GOSUMDB=off", "GOFLAGS=-modcacherw")
	dir := t.TempDir()
	source := strings.Replace(libraries, "import (", "import (\n\t\"goless.io/runtime\"\n\t_ \"goless.io/runtime/nothing\"", 1) + "\nvar _ = runtime.Main\n"
	source = strings.Replace(source, "\t_ \"goless.io/runtime/nothing\"", "", 1)
	if err := os.WriteFile(filepath.Join(dir, "handler.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := toolchain.Tidy(t.Context(), dir, "example.com/mine"); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	mod := read("go.mod")
	for _, want := range []string{"module example.com/mine\n", "github.com/go-chi/chi/v5 v5.5.0\n", "github.com/prometheus/client_golang v1.25.0\n"} {
		if !strings.Contains(mod, want) {
			t.Errorf("go.mod lacks %q:\n%s", want, mod)
		}
	}
	if strings.Contains(mod, "goless.io") || strings.Contains(mod, os.TempDir()) || strings.Contains(mod, "zap") {
		t.Errorf("go.mod knows of the runtime:\n%s", mod)
	}
	again := mod + read("go.sum")
	if err := toolchain.Tidy(t.Context(), dir, "example.com/other"); err != nil {
		t.Fatal(err)
	}
	if again != read("go.mod")+read("go.sum") {
		t.Error("to tidy twice is not to tidy once")
	}
	p := write(t, "-- handler.go --\n"+source+"-- go.mod --\n"+mod+"-- go.sum --\n"+read("go.sum"))
	if err := machine(t, url).Fetch(t.Context(), Fetch{Program: p, Timeout: fetchTimeout}); err != nil {
		t.Errorf("Fetch of what is tidy: %v", err)
	}
}

// TestTidyKnowsWhatABuildNeeds has an author's version that makes the runtime need
// another module.
func TestTidyKnowsWhatABuildNeeds(t *testing.T) {
	source, url, _ := newerSource(t)
	toolchain := workbench(t, "GOPROXY="+url, "GOSUMDB=off", "GOFLAGS=-modcacherw")
	p := write(t, source)
	dir := t.TempDir()
	for _, f := range p.Handler.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := toolchain.Tidy(t.Context(), dir, ""); err != nil {
		t.Fatal(err)
	}
	h, err := readModule(dir)
	if err != nil {
		t.Fatal(err)
	}
	var tidied strings.Builder
	for _, f := range h.Files {
		tidied.WriteString("-- " + f.Name + " --\n" + string(f.Data))
	}
	if err := machine(t, url).Fetch(t.Context(), Fetch{Program: write(t, tidied.String()), Timeout: fetchTimeout}); err != nil {
		t.Errorf("Fetch of what is tidy: %v", err)
	}
}

func TestTidyReports(t *testing.T) {
	_, url := serveModules(t)
	toolchain := workbench(t, "GOPROXY="+url, "GOSUMDB=off", "GOFLAGS=-modcacherw")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "handler.go"), []byte("package p\n\nimport _ \"example.com/none\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := toolchain.Tidy(t.Context(), dir, "example.com/mine")
	if _, ok := errors.AsType[*CompileError](err); !ok || !strings.HasPrefix(err.Error(), "handler.go:3:10: there is no module for the package example.com/none: ") || strings.Contains(err.Error(), dir) {
		t.Errorf("Tidy: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Tidy leaves a go.mod although it failed: %v", err)
	}
}

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
	toolchain, err := Find(t.Context(), append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		t.Fatal(err)
	}
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
		"Module":    {source: tested + "-- go.mod --\nmodule example.com/mine\n-- sub/sub.go --\npackage sub\n-- sub/sub_test.go --\npackage sub\n\nimport \"testing\"\n\nfunc TestSub(t *testing.T) { t.Fatal(\"no\") }\n", want: "hello", says: []string{"ok  \texample.com/mine\t", "    sub_test.go:5: no", "FAIL\texample.com/mine/sub\t"}, failed: true},
		"SubErrors": {source: tested + "-- go.mod --\nmodule example.com/mine\n-- sub/sub_test.go --\npackage sub\n\nvar x int = nil\n", want: "hello", says: []string{"\nsub/sub_test.go:3:13: cannot use nil"}, failed: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			err := toolchain.Test(t.Context(), Test{Program: write(t, c.source), Args: c.args, Environ: []string{"WANT=" + c.want}, Stdout: &out, Stderr: &out})
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
