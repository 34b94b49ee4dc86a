package program_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/modfile"

	"goless.io/builder/internal/program"
)

var update = flag.Bool("update", false, "write the golden files")

const source = "package handlers // as it is\r\n"

func write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := program.Write(dir, []byte(source)); err != nil {
		t.Fatal(err)
	}
	return dir
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
	golden := filepath.Join("testdata", "main.go.golden")
	got := read(t, write(t), "main.go")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(read(t, golden)), string(got)); diff != "" {
		t.Errorf("main.go: -want +got\n%s", diff)
	}
	if lines := strings.Count(string(got), "\n"); lines > 15 {
		t.Errorf("main.go has %d lines: what it does belongs into the runtime", lines)
	}
}

func TestWriteKeepsTheSource(t *testing.T) {
	if got := read(t, write(t), "handler", "handler.go"); string(got) != source {
		t.Errorf("handler.go = %q, want %q", got, source)
	}
}

func TestWriteRequiresWhatTheRuntimeRequires(t *testing.T) {
	dir := write(t)
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
	err := filepath.WalkDir(write(t), func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, "_test.go") {
			t.Errorf("%s is a test", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
