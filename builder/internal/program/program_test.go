package program_test

import (
	"bytes"
	"flag"
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

var update = flag.Bool("update", false, "write the golden files")

const source = "package handlers // as it is\r\n"

// single is a source of one file.
var single = &handler.Source{Files: []handler.File{{Name: "handler.go", Line: 1, Data: []byte(source)}}}

func write(t *testing.T, src *handler.Source) *program.Program {
	t.Helper()
	p, err := program.Write(t.TempDir(), src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// archive describes the source in a txtar archive without checking it.
func archive(source string) *handler.Source {
	return handler.Inspect(handler.Split(handler.Filename, []byte(source)))
}

func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestWriteMain(t *testing.T) {
	site := archive("-- go.mod --\nmodule example.com/site\n")
	site.Hooks = []string{"Start", "Stop", "Ready"}
	for name, src := range map[string]*handler.Source{"main.go": single, "hooks.go": site} {
		t.Run(name, func(t *testing.T) {
			got := read(t, write(t, src).Dir, "main.go")
			checkGolden(t, filepath.Join("testdata", name+".golden"), got)
			if formatted, err := format.Source(got); err != nil || !bytes.Equal(formatted, got) {
				t.Errorf("main.go is not formatted: %v", err)
			}
			if lines := bytes.Count(got, []byte("\n")); lines > 15 {
				t.Errorf("main.go has %d lines: what it does belongs into the runtime", lines)
			}
		})
	}
}

func checkGolden(t *testing.T, golden string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, golden)), string(got)); diff != "" {
		t.Errorf("%s: -want +got\n%s", golden, diff)
	}
}

func TestWriteKeepsTheSource(t *testing.T) {
	if got := read(t, write(t, single).Dir, "handler", "handler.go"); string(got) != source {
		t.Errorf("handler.go = %q, want %q", got, source)
	}
	src := archive("-- a.go --\npackage a\n-- a_test.go --\npackage a_test\n-- sub/x/b.go --\npackage x\n-- go.mod --\nmodule example.com/a\n-- go.sum --\n\n")
	p := write(t, src)
	for _, f := range src.Files {
		if got := read(t, p.Dir, "handler", f.Name); !bytes.Equal(got, f.Data) {
			t.Errorf("%s = %q, want %q", f.Name, got, f.Data)
		}
	}
	if p.Path != "example.com/a" || p.Fetches() {
		t.Errorf("Write = %+v, want the author's module, and nothing to fetch", p)
	}
}

func TestWriteStaysInItsDirectory(t *testing.T) {
	for _, name := range []string{"../x.go", "../../main.go"} {
		src := &handler.Source{Files: []handler.File{{Name: "../" + name, Data: []byte("package p\n")}}}
		if _, err := program.Write(t.TempDir(), src); err == nil {
			t.Errorf("Write writes %s", name)
		}
	}
}

func TestWriteRequiresWhatTheRuntimeRequires(t *testing.T) {
	dir := write(t, single).Dir
	parse := func(elements ...string) *modfile.File {
		mod, err := modfile.Parse("go.mod", read(t, append([]string{dir}, elements...)...), nil)
		if err != nil {
			t.Fatal(err)
		}
		return mod
	}
	function, runtime := parse("go.mod"), parse("runtime", "go.mod")

	required := make(map[string]string)
	for _, r := range function.Require {
		required[r.Mod.Path] = r.Mod.Version
	}
	for _, r := range runtime.Require {
		if required[r.Mod.Path] != r.Mod.Version {
			t.Errorf("requires %s %q, the runtime %q", r.Mod.Path, required[r.Mod.Path], r.Mod.Version)
		}
	}
	if function.Go.Version != runtime.Go.Version {
		t.Errorf("go %s, the runtime has go %s", function.Go.Version, runtime.Go.Version)
	}
	if len(function.Replace) != 1 || function.Replace[0].New.Path != "./runtime" {
		t.Errorf("replaces %v, want the runtime alone", function.Replace)
	}
}

func TestWriteLeavesOutTests(t *testing.T) {
	err := filepath.WalkDir(write(t, single).Dir, func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s is a test", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
