package fix_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// A source with a go.mod needs the module cache that is below GOPATH, also after one without.
func TestFilesFindsModulesAgain(t *testing.T) {
	for _, files := range []map[string]string{{"a.go": "package a\n"}, {"go.mod": "module m.example\n", "a.go": "package a\n"}} {
		if _, err := run(t, files); err != nil {
			t.Fatal(err)
		}
	}
	if got := os.Getenv("GOPATH"); strings.HasSuffix(got, "none") {
		t.Errorf("GOPATH is %s", got)
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

// An import whose package has another name than its path may be used.
func TestFilesKeepsUnknownImports(t *testing.T) {
	const used = "package a\n\nimport \"example.com/golang-lru/v2\"\n\nvar A = lru.New()\n"
	_, err := run(t, map[string]string{"a.go": used, "go.mod": "module m.example\n\ngo 1.26\n\nrequire example.com/golang-lru/v2 v2.0.0\n"})
	if _, ok := errors.AsType[*handler.Error](err); !ok || !strings.HasPrefix(err.Error(), `a.go:3:8: nobody knows here whether the package "example.com/golang-lru/v2" is used, `) {
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
	t.Setenv("PATH", t.TempDir()) // without a go command there is nothing that could go on
	_, err := fix.Files(gone, t.TempDir(), []handler.File{{Name: "a.go", Data: []byte("package a\n")}})
	if err == nil {
		t.Error("Files has taken its time")
	}
}
