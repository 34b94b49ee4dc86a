package input_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
	"goless.io/builder/internal/input"
)

// writeTree writes files into a new directory, whose name is dir.
func writeTree(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, data := range files {
		path := filepath.Join("dir", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReadDirectory(t *testing.T) {
	cases := map[string]struct {
		files      map[string]string
		name       string
		want, note string // names of the files of the source; the note
	}{
		"HandlerAlone": {map[string]string{"handler.go": goSource}, "dir", "handler.go", ""},
		"OneFile":      {map[string]string{"hello.go": goSource}, "dir", "hello.go", ""},
		"Module":       {map[string]string{"go.mod": "module example.com/x/v2\n", "a.go": goSource, "b/b.go": goSource}, "x", "a.go b/b.go go.mod", ""},
		"Dots":         {map[string]string{"a.go": goSource, ".git/config": "x", ".env": "x", "b/.c/d.go": "x"}, "dir", "a.go", ""},
		"Nested":       {map[string]string{"a.go": goSource, "tool/go.mod": "module t\n", "tool/a.go": goSource}, "dir", "a.go", "dir/tool is a module of its own, left out"},
		"Program":      {map[string]string{"a.go": goSource, "server": "\x7fELF" + strings.Repeat("\x00", 17<<20)}, "dir", "a.go", "dir/server is a compiled program, left out"},
		"Everything":   {map[string]string{"a.go": goSource, "a_test.go": goSource, "go.sum": "", "testdata/x": "x\n", "vendor/modules.txt": "#\n"}, "dir", "a.go a_test.go testdata/x go.sum vendor/modules.txt", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			writeTree(t, c.files)
			functions, notes, err := input.Read("dir", nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range handler.Split(handler.Filename, functions[0].Source) {
				names = append(names, f.Name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("files: %s, want %s", got, c.want)
			}
			if functions[0].Name != c.name || strings.Join(notes, "\n") != c.note {
				t.Errorf("Name %q, notes %q, want %q and %q", functions[0].Name, notes, c.name, c.note)
			}
		})
	}
}

// A command in a message is one that can be copied.
func TestLocateNamesTheDirectory(t *testing.T) {
	writeTree(t, map[string]string{"a.go": goSource, "go.mod": "module m\n"})
	functions, _, err := input.Read("dir", nil)
	if err != nil {
		t.Fatal(err)
	}
	at := functions[0].Locate(handler.Diagnostic{File: "go.mod", Line: 1, Column: 1, Message: "write it with: builder tidy FILE"})
	if want := "dir/go.mod:1:1: write it with: builder tidy dir"; at.String() != want {
		t.Errorf("Locate: %s, want %s", at, want)
	}
}

func TestReadDirectoryRefuses(t *testing.T) {
	cases := map[string]struct {
		files map[string]string
		want  string
	}{
		"NoGo":     {map[string]string{"a.txt": "x\n"}, "dir holds no Go file"},
		"Binary":   {map[string]string{"a.go": goSource, "x.png": "\x89PNG"}, "dir/x.png:1:1: the file is not UTF-8 text"},
		"NUL":      {map[string]string{"a.go": "package a\n\nvar s = \"\x00\"\n", "b.go": goSource}, "dir/a.go:3:10: the file is not UTF-8 text"},
		"Marker":   {map[string]string{"a.go": goSource, "x.txt": "a\n-- b --\n"}, "dir/x.txt:2:1: the line would begin another file"},
		"Name":     {map[string]string{"a.go": goSource, "x.txt ": "x\n"}, "dir/x.txt :1: no file of a Function can have this name"},
		"TooLarge": {map[string]string{"a.go": goSource, "b/x.txt": strings.Repeat("x\n", 1<<17)}, "dir/b/x.txt:1: dir holds 262"},
		"Huge":     {map[string]string{"a.go": goSource, "x.txt": strings.Repeat("x\n", 9<<20)}, "dir/x.txt:1: dir holds 18.9 MB"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			writeTree(t, c.files)
			_, _, err := input.Read("dir", nil)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("Read: %v, want %s", err, c.want)
			}
		})
	}
}

// Links are followed as far as the directory goes: a mounted ConfigMap is full of
// them.
func TestReadDirectoryFollowsLinksInside(t *testing.T) {
	writeTree(t, map[string]string{".data/handler.go": goSource})
	if err := os.Symlink(".data/handler.go", "dir/handler.go"); err != nil {
		t.Fatal(err)
	}
	functions, _, err := input.Read("dir", nil)
	if err != nil || string(functions[0].Source) != goSource {
		t.Fatalf("Read: %v", err)
	}
	if err := os.Symlink("/etc/hostname", "dir/name.txt"); err != nil {
		t.Fatal(err)
	}
	_, _, err = input.Read("dir", nil)
	if invalid, ok := errors.AsType[*handler.Error](err); !ok || invalid.Error() != "dir/name.txt:1: the link leads out of the directory, or nowhere: put the file in its place" {
		t.Errorf("Read: %v", err)
	}
}

// A Go file that imports modules takes its go.mod along, and no other file.
func TestReadTakesModuleAlong(t *testing.T) {
	const imports = "package p\n\nimport _ \"github.com/x/y\"\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"Module":   {map[string]string{"a.go": imports, "b.go": imports, "go.mod": "module m\n", "go.sum": "x\n"}, []string{"a.go", "go.mod", "go.sum"}},
		"NoSum":    {map[string]string{"a.go": imports, "go.mod": "module m\n"}, []string{"a.go", "go.mod"}},
		"NoModule": {map[string]string{"a.go": imports, "b.go": imports}, []string{"handler.go"}},
		"NoNeed":   {map[string]string{"a.go": goSource, "go.mod": "module m\n"}, []string{"handler.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			writeTree(t, c.files)
			functions, _, err := input.Read("dir/a.go", nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range functions[0].Files() {
				names = append(names, f.Name)
			}
			if diff := cmp.Diff(c.want, names); diff != "" || functions[0].Name != "a" {
				t.Errorf("Name %q, files: -want +got\n%s", functions[0].Name, diff)
			}
			at := functions[0].Locate(handler.Diagnostic{File: names[0], Line: 3, Column: 1})
			if at.String() != "dir/a.go:3:1: " {
				t.Errorf("Locate: %s", at)
			}
		})
	}
}

func TestLocateInDirectories(t *testing.T) {
	writeTree(t, map[string]string{"a.go": goSource, "b/b.go": goSource})
	functions, _, err := input.Read("dir", nil)
	if err != nil {
		t.Fatal(err)
	}
	at := functions[0].Locate(handler.Diagnostic{File: "b/b.go", Line: 3, Column: 6, Message: "declared twice, the first is at a.go:1:9"})
	if want := "dir/b/b.go:3:6: declared twice, the first is at dir/a.go:1:9"; at.String() != want {
		t.Errorf("Locate: %s, want %s", at, want)
	}
}

func TestEditsOfDirectories(t *testing.T) {
	writeTree(t, map[string]string{"a.go": goSource, "b/b.go": goSource})
	functions, _, err := input.Read("dir", nil)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := input.Edits([]input.Change{{Function: functions[0], Files: map[string][]byte{
		"a.go": []byte(goSource), "b/b.go": []byte("package b\n"), "go.mod": []byte("module m\n"),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range edits {
		got[e.Path] = string(e.New)
	}
	want := map[string]string{"dir/b/b.go": "package b\n", "dir/go.mod": "module m\n"}
	if !maps.Equal(got, want) {
		t.Errorf("Edits: %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

func TestReadRefusesDirectoriesWithoutEnd(t *testing.T) {
	files := map[string]string{"a.go": goSource}
	for i := range 10001 {
		files["many/"+strings.Repeat("x", i/100+1)+string(rune('a'+i%100))] = ""
	}
	writeTree(t, files)
	_, _, err := input.Read("dir", nil)
	if err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "more than 10000 files") {
		t.Errorf("Read: %v", err)
	}
}
