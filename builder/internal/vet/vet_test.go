package vet

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
)

// exports are files with the export data of packages of the standard library
// and of all that they import, by import path.
func exports(t *testing.T, packages ...string) map[string]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, packages...)...)
	cmd.Dir = t.TempDir()
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); decoder.More(); {
		var pkg struct{ ImportPath, Export string }
		if err := decoder.Decode(&pkg); err != nil {
			t.Fatal(err)
		}
		files[pkg.ImportPath] = pkg.Export
	}
	return files
}

// write writes the files of an archive and returns them as a program of a module
// m, a package a directory.
func write(t *testing.T, archive string) Program {
	t.Helper()
	p := Program{Dir: t.TempDir()}
	files := map[string][]string{}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		path := filepath.Join(p.Dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		dir := filepath.ToSlash(filepath.Join("m", filepath.Dir(f.Name)))
		files[dir] = append(files[dir], f.Name)
	}
	for path, names := range files {
		p.Packages = append(p.Packages, Package{Path: path, Files: names})
	}
	return p
}

func TestCheck(t *testing.T) {
	std := exports(t, "net/http", "fmt", "context")
	for name, c := range map[string]struct {
		archive string
		want    []string
	}{
		"Nothing": {"-- a.go --\npackage m\n\nfunc f() int { return 1 }\n", nil},
		"Places": {
			"-- b.go --\npackage m\n\nimport \"fmt\"\n\nfunc g() {\n\tfmt.Errorf(\"x\")\n\tfmt.Printf(\"%d\", \"s\")\n}\n-- a.go --\npackage m\n\nfunc f(x int) {\n\tx = x\n}\n",
			[]string{
				"a.go:4:2: self-assignment of x (assign)",
				"b.go:6:2: result of fmt.Errorf call not used (unusedresult)",
				"b.go:7:14: fmt.Printf format %d has arg \"s\" of wrong type string (printf)",
			},
		},
		"Import": {
			"-- a.go --\npackage m\n\nimport (\n\t\"context\"\n\t\"net/http\"\n)\n\nfunc f(r *http.Request) {\n\tctx, _ := context.WithCancel(r.Context())\n\t_ = ctx\n}\n",
			[]string{"a.go:9:7: the cancel function returned by context.WithCancel should be called, not discarded, to avoid a context leak (lostcancel)"},
		},
		"Wrapper": { // what is known of one package is known where it is imported
			"-- a.go --\npackage m\n\nimport \"m/util\"\n\nfunc f() { util.Logf(\"%d\", \"s\") }\n-- util/util.go --\npackage util\n\nimport \"fmt\"\n\nfunc Logf(format string, args ...any) { fmt.Printf(format, args...) }\n",
			[]string{"a.go:5:23: m/util.Logf format %d has arg \"s\" of wrong type string (printf)"},
		},
		"Line": { // a directive moves nothing
			"-- a.go --\npackage m\n\n//line /etc/passwd:100\nfunc f(x int) { x = x }\n",
			[]string{"a.go:4:17: self-assignment of x (assign)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := write(t, c.archive)
			p.Exports = std
			findings, err := Check(p)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range findings {
				got = append(got, f.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings: -want +got\n%s", diff)
			}
		})
	}
}

// TestCheckRefuses what does not compile, without an end of its own.
func TestCheckRefuses(t *testing.T) {
	for name, c := range map[string]struct{ archive, want string }{
		"Syntax": {"-- a.go --\npackage\n", "a.go:1:9"},
		"Type":   {"-- a.go --\npackage m\n\nvar x int = \"\"\n", "a.go:3:13"},
		"Import": {"-- a.go --\npackage m\n\nimport _ \"fmt\"\n", "there is no export data of fmt"},
		"Cycle":  {"-- a.go --\npackage m\n\nimport _ \"m/b\"\n-- b/b.go --\npackage b\n\nimport _ \"m\"\n", "imports itself"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Check(write(t, c.archive))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Check: %v, want %q", err, c.want)
			}
		})
	}
}

// TestCheckNewerLanguage analyses what another toolchain than the one of this
// program has compiled.
func TestCheckNewerLanguage(t *testing.T) {
	p := write(t, "-- a.go --\npackage m\n\nfunc f(x int) { x = x }\n")
	p.GoVersion = "go1.999"
	findings, err := Check(p)
	if err != nil || len(findings) != 1 {
		t.Errorf("Check = %v, %v, want one finding", findings, err)
	}
}

func TestServe(t *testing.T) {
	request, err := json.Marshal(write(t, "-- a.go --\npackage m\n\nfunc f(x int) { x = x }\n"))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Serve(bytes.NewReader(request), &out); err != nil {
		t.Fatal(err)
	}
	var got []handler.Diagnostic
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := []handler.Diagnostic{{File: "a.go", Line: 3, Column: 17, Message: "self-assignment of x (assign)"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Serve: -want +got\n%s", diff)
	}
}

// TestCheckNewerStandardLibrary imports a package whose export data cannot be
// read, and whose source has what this program's Go cannot parse.
func TestCheckNewerStandardLibrary(t *testing.T) {
	p := write(t, "-- a.go --\npackage m\n\nimport \"newer\"\n\nfunc f(x newer.T) { y := x.M(); y = y }\n")
	p.Root = t.TempDir()
	dir := filepath.Join(p.Root, "src", "newer")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	src := "package newer\n\nimport \"internal/unknown\"\n\ntype T struct{}\n\nfunc (T) Generic[P any](p P) P { return unknown.F(p) }\n\nfunc (T) M() int { return 1 }\n"
	if err := os.WriteFile(filepath.Join(dir, "newer.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	findings, err := Check(p)
	if err != nil || len(findings) != 1 {
		t.Errorf("Check = %v, %v, want one finding", findings, err)
	}
}
