package fix_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rogpeppe/go-internal/goproxytest"

	"goless.io/builder/handler"
	"goless.io/builder/internal/fix"
)

func run(t *testing.T, files map[string]string) (map[string]string, error) {
	t.Helper()
	dir := t.TempDir()
	var all []handler.File
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(data), 0o600)); err != nil {
			t.Fatal(err)
		}
		all = append(all, handler.File{Name: name, Line: 1, Data: []byte(data)})
	}
	changed, err := fix.Files(t.Context(), dir, all)
	got := map[string]string{}
	for name, data := range changed {
		got[name] = string(data)
	}
	return got, err
}

func TestFiles(t *testing.T) {
	cases := map[string]struct{ files, want map[string]string }{
		"Added":    {map[string]string{"a.go": "package a\n\nvar A = strings.ToUpper(\"a\")\n"}, map[string]string{"a.go": "package a\n\nimport \"strings\"\n\nvar A = strings.ToUpper(\"a\")\n"}},
		"Removed":  {map[string]string{"a.go": "package a\n\nimport \"strings\"\n"}, map[string]string{"a.go": "package a\n"}},
		"Windows":  {map[string]string{"a.go": "package a\r\nvar  A = strings.ToUpper(\"a\")\r\n"}, map[string]string{"a.go": "package a\r\n\r\nimport \"strings\"\r\n\r\nvar A = strings.ToUpper(\"a\")\r\n"}},
		"NoLine":   {map[string]string{"a.go": "package a; var  A = 1"}, map[string]string{"a.go": "package a\n\nvar A = 1\n"}},
		"Good":     {map[string]string{"a.go": "package a\n"}, map[string]string{}},
		"Other":    {map[string]string{"a.go": "package a\n", "a.txt": "package  a"}, map[string]string{}},
		"Vendored": {map[string]string{"a.go": "package a\n", "vendor/x.y/z/z.go": "package  z"}, map[string]string{}},
		"Aside":    {map[string]string{"a.go": "package a\n", "testdata/b.go": "not Go", "_c.go": "not Go", "d/_e/f.go": "not Go"}, map[string]string{}},
		"Sibling":  {map[string]string{"a.go": "package a\n\nvar A = strings.B\n", "b.go": "package a\n\nvar strings struct{ B int }\n"}, map[string]string{}},
		"Unknown":  {map[string]string{"a.go": "package a\n\nvar A = nowhere.B\n"}, map[string]string{}},
		"Module": {
			map[string]string{"go.mod": "module m.example\n\ngo 1.26\n", "a.go": "package a\n\nvar A = local.B\n", "local/l.go": "package local\n\nvar B = 1\n"},
			map[string]string{"a.go": "package a\n\nimport \"m.example/local\"\n\nvar A = local.B\n"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := run(t, c.files)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("Files: -want +got\n%s", diff)
			}
		})
	}
}

// TestFilesRestores checks that Files restores the environment.
func TestFilesRestores(t *testing.T) {
	before, dir := os.Environ(), must(t, os.Getwd)
	for _, files := range []map[string]string{{"a.go": "package a\n"}, {"go.mod": "module m.example\n", "a.go": "package a\n"}} {
		if _, err := run(t, files); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, os.Environ(), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("the environment differs: -want +got\n%s", diff)
	}
	if got := must(t, os.Getwd); got != dir {
		t.Errorf("the working directory is %s, want %s", got, dir)
	}
}

func must[T any](t *testing.T, f func() (T, error)) T {
	t.Helper()
	value, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// twins returns the GOMODCACHE with two modules that have the same packages. One has a shorter
// path.
func twins(t *testing.T) string {
	t.Helper()
	made, cache := t.TempDir(), t.TempDir()
	for path, version := range map[string]string{"example.com/chi": "v1.5.5", "example.com/chi/v5": "v5.5.0"} {
		archive := "-- .mod --\nmodule " + path + "\n-- .info --\n{\"Version\":\"" + version + "\"}\n-- go.mod --\nmodule " + path + "\n" +
			"-- chi.go --\npackage chi\n\nfunc NewRouter() int { return 0 }\n-- middleware/m.go --\npackage middleware\n\nfunc Logger() {}\n"
		if err := os.WriteFile(filepath.Join(made, strings.ReplaceAll(path, "/", "_")+"_"+version+".txtar"), []byte(archive), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "go", "mod", "download", path+"@"+version)
		cmd.Dir = cache
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOPROXY="+goproxytest.NewTestServer(t, made, "").URL, "GOMODCACHE="+cache)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return cache
}

// TestFilesImportsOnlyWhatIsRequired has a module in the cache that go.mod does not require.
func TestFilesImportsOnlyWhatIsRequired(t *testing.T) {
	t.Setenv("GOMODCACHE", twins(t))
	t.Setenv("GOSUMDB", "off")
	const header, unused = "package a\n", "\nvar A = chi.NewRouter()\n\nfunc init() { middleware.Logger() }\n"
	for require, want := range map[string]string{
		"":                                    header + unused,
		"require example.com/chi/v5 v5.5.0\n": header + "\nimport (\n\t\"example.com/chi/v5\"\n\t\"example.com/chi/v5/middleware\"\n)\n" + unused,
		"require example.com/chi v1.5.5\n":    header + "\nimport (\n\t\"example.com/chi\"\n\t\"example.com/chi/middleware\"\n)\n" + unused,
	} {
		t.Run(require, func(t *testing.T) {
			files := map[string]string{"a.go": header + unused, "go.mod": "module m.example\n\ngo 1.26\n\n" + require}
			got, err := run(t, files)
			if err != nil {
				t.Fatal(err)
			}
			if fixed, changed := got["a.go"]; changed && fixed != want || !changed && want != files["a.go"] {
				t.Errorf("Files = %q, want %q", fixed, want)
			}
		})
	}
}

func TestFilesReportsSyntaxErrors(t *testing.T) {
	for src, want := range map[string]string{
		"package a\n\nfunc {\n":                       "a/a.go:3:6: expected 'IDENT', found '{'",
		"package a\n\nfunc A() {\n\n\n":               "a/a.go:3:11: expected '}', found 'EOF'",
		"package a\n\n//line b.go:70\nfunc A() { 1 +": "a/a.go:4:15: expected operand, found 'EOF'",
	} {
		_, err := run(t, map[string]string{"a/a.go": src})
		if _, ok := errors.AsType[*handler.Error](err); !ok || err.Error() != want {
			t.Errorf("Files: %v, want %s", err, want)
		}
	}
}

// TestFilesKeepsUnknownImports imports a package whose name may differ from its path.
func TestFilesKeepsUnknownImports(t *testing.T) {
	const used = "package a\n\nimport \"example.com/golang-lru/v2\"\n\nvar A = lru.New()\n"
	_, err := run(t, map[string]string{"a.go": used, "go.mod": "module m.example\n\ngo 1.26\n\nrequire example.com/golang-lru/v2 v2.0.0\n"})
	if _, ok := errors.AsType[*handler.Error](err); !ok || !strings.HasPrefix(err.Error(), `a.go:3:8: cannot determine whether the package "example.com/golang-lru/v2" is used, because`) {
		t.Errorf("Files: %v", err)
	}
	_, err = run(t, map[string]string{"a.go": "package a\n\nimport \"goless.io/runtime\"\n"})
	if err != nil {
		t.Errorf("an import of the runtime that is not used stays: %v", err)
	}
	local := strings.ReplaceAll(used, "example.com/golang-lru/v2", "m.example/lru")
	got, err := run(t, map[string]string{"a.go": local, "go.mod": "module m.example\n\ngo 1.26\n", "lru/lru.go": "package other\n"})
	if err != nil || strings.Contains(got["a.go"], "m.example/lru") {
		t.Errorf("an import that is not used stays: %v, %v", got, err)
	}
}

func TestFilesGivesUp(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	t.Setenv("PATH", t.TempDir()) // without a go command, no goroutine continues
	_, err := fix.Files(gone, t.TempDir(), []handler.File{{Name: "a.go", Data: []byte("package a\n")}})
	if err == nil {
		t.Error("Files has taken its time")
	}
}
