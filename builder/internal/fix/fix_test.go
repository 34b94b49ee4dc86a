package fix_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

// TestFilesRestoresTheEnvironment is about the next source, which may have a go.mod
// and then needs the module cache that is below GOPATH.
func TestFilesRestoresTheEnvironment(t *testing.T) {
	t.Setenv("GOPATH", "")
	if err := os.Unsetenv("GOPATH"); err != nil {
		t.Fatal(err)
	}
	before := os.Environ()
	if _, err := run(t, map[string]string{"a.go": "package a\n"}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, os.Environ(), cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("the environment: -before +after\n%s", diff)
	}
}

func TestFilesReportsSyntaxErrors(t *testing.T) {
	_, err := run(t, map[string]string{"a/a.go": "package a\n\nfunc {\n"})
	invalid, ok := errors.AsType[*handler.Error](err)
	if !ok {
		t.Fatalf("Files: %v", err)
	}
	if at := invalid.Diagnostics[0]; at.File != "a/a.go" || at.Line != 3 {
		t.Errorf("Files: %v", at)
	}
}

func TestDescribe(t *testing.T) {
	const old = "package a\n\nimport (\n\t\"os\"\n\tx \"strings\"\n)\n"
	for want, after := range map[string]string{
		"formatted":           old + "\n",
		`added import "io"`:   "package a\n\nimport (\n\t\"io\"\n\t\"os\"\n\tx \"strings\"\n)\n",
		`removed import "os"`: "package a\n\nimport x \"strings\"\n",
		`added import "io", removed import "os", removed import x "strings"`: "package a\n\nimport \"io\"\n",
	} {
		if got := fix.Describe([]byte(old), []byte(after)); got != want {
			t.Errorf("Describe: %s, want %s", got, want)
		}
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
