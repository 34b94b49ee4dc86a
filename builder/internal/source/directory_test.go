package source_test

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
	"goless.io/builder/internal/manifest"
)

const goSource = "package handlers\n\nfunc Handler() {}\n"

// writeTree writes files into a new directory named dir.
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
		"Nested":       {map[string]string{"a.go": goSource, "tool/go.mod": "module t\n", "tool/a.go": goSource}, "dir", "a.go", "dir/tool is a separate module; skipped"},
		"Program":      {map[string]string{"a.go": goSource, "server": "\x7fELF" + strings.Repeat("\x00", 17<<20)}, "dir", "a.go", "dir/server is not text, and no Go file embeds it; skipped"},
		"Ignored":      {map[string]string{"go.mod": "module example.com/x\n\nignore (\n\t./web\n\tgenerated\n)\n", "a.go": goSource, "b/web/b.go": goSource, "b/generated/x.go": "not Go"}, "x", "a.go b/web/b.go go.mod", "dir/b/generated is ignored by go.mod; skipped"},
		"Picture":      {map[string]string{"a.go": goSource, "b/b.go": "package b\n\n//go:embed x.png\n", "x.png": "\x89PNG"}, "dir", "a.go b/b.go", "dir/x.png is not text, and no Go file embeds it; skipped"},
		"Manifest":     {map[string]string{"a.go": goSource, "f.yaml": "# mine\napiVersion: goless.io/v1beta1\nkind: Function\n", "x.yaml": "a: b\n"}, "dir", "a.go x.yaml", "dir/f.yaml is YAML of Goless objects; skipped"},
		"Video":        {map[string]string{"a.go": goSource, "x.mp4": strings.Repeat("\xff", 17<<20)}, "dir", "a.go", "dir/x.mp4 is not text, and no Go file embeds it; skipped"},
		"Workspace":    {map[string]string{"a.go": goSource, "go.work": "go 1.26\n"}, "dir", "a.go", "dir/go.work is only for this machine; skipped"},
		"Embedded":     {map[string]string{"a.go": goSource + "\n//go:embed *.gif \"x.png\"\n", "x.png": "\x89PNG", "y.png": "\x89PNG"}, "dir", "a.go x.png", "dir/y.png is not text, and no Go file embeds it; skipped"},
		"EmbeddedTree": {map[string]string{"a.go": goSource, "b/b.go": "package b\n\nvar (\n\t//go:embed p*\n\tfiles embed.FS\n)\n", "b/pages/x/y.png": "\x89PNG", "b/pages/.x": "x\n", "b/pages/m/go.mod": "module m\n"}, "dir", "a.go b/b.go b/pages/x/y.png", "dir/b/pages/m is a separate module; skipped"},
		"EmbeddedDots": {map[string]string{"a.go": goSource + "\n//go:embed .env all:b c/* .git\n", ".env": "x\n", "b/.x/y": "x\n", "c/.x": "x\n", ".y": "x\n", ".git/config": "x\n"}, "dir", "a.go .env b/.x/y c/.x", ""},
		"EmbeddedAway": {map[string]string{"a.go": goSource + "\n//go:embed m/x.png\n", "m/go.mod": "module m\n", "m/x.png": "\x89PNG"}, "dir", "a.go", "dir/m is a separate module; skipped"},
		"Wasm":         {map[string]string{"a.go": goSource + "\n//go:embed x.wasm\n", "x.wasm": "\x00asm\x01"}, "dir", "a.go x.wasm", ""},
		"Marker":       {map[string]string{"a.go": goSource, "x.txt": "a\n-- b --\n"}, "dir", "a.go x.txt", ""},
		"Open":         {map[string]string{"a.go": goSource + "\n//go:embed x.txt\n", "x.txt": "1.2.3", "y.txt": "x"}, "dir", "a.go x.txt y.txt", "dir/x.txt has no newline at the end; the embedded file in the Function has one"},
		"Everything":   {map[string]string{"a.go": goSource, "a_test.go": goSource, "go.sum": "", "testdata/x": "x\n", "vendor/modules.txt": "#\n"}, "dir", "a.go a_test.go testdata/x go.sum vendor/modules.txt", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			writeTree(t, c.files)
			functions, notes, err := manifest.Read("dir", nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range handler.Split(handler.Filename, functions[0].Source) {
				names = append(names, f.Name)
				checkContent(t, f, c.files[f.Name])
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

// checkContent checks that a file of a source equals that in the directory, except for a line break
// at its end.
func checkContent(t *testing.T, f handler.File, want string) {
	t.Helper()
	if got := string(f.Data); got != want && got != want+"\n" {
		t.Errorf("%s holds %q, want %q", f.Name, got, want)
	}
}

// TestReadPackage checks that a package of a module includes the files that it embeds, and the text
// files of testdata.
func TestReadPackage(t *testing.T) {
	const source = "package p\n\nimport (\n\t_ \"embed\"\n\t_ \"m/q\"\n)\n\n//go:embed x.png .y\nvar _ int\n"
	writeTree(t, map[string]string{
		"go.mod": "module m\n", "q/q.go": "package q\n", "p/p.go": source, "p/x.png": "\x89PNG", "p/.y": "y", "p/z.png": "\x89PNG",
		"p/testdata/a": "a\n", "p/testdata/b.png": "\x89PNG",
	})
	functions, notes, err := manifest.Read("dir/p", nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range handler.Split(handler.Filename, functions[0].Source) {
		names = append(names, f.Name)
	}
	if diff := cmp.Diff([]string{"p/.y", "p/p.go", "p/testdata/a", "p/x.png", "q/q.go", "go.mod"}, names); diff != "" {
		t.Errorf("files: -want +got\n%s", diff)
	}
	want := []string{"dir/p/testdata/b.png is not text, and no Go file embeds it; skipped", "dir/p/.y has no newline at the end; the embedded file in the Function has one"}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("notes: -want +got\n%s", diff)
	}
}

// TestLocateNamesTheDirectory checks that a command in a message can be copied.
func TestLocateNamesTheDirectory(t *testing.T) {
	writeTree(t, map[string]string{"a.go": goSource, "go.mod": "module m\n"})
	functions, _, err := manifest.Read("dir", nil)
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
		"NoGo":     {map[string]string{"a.txt": "x\n"}, "dir contains no Go file"},
		"UTF16":    {map[string]string{"a.go": "\xff\xfep\x00a\x00"}, "dir/a.go:1: the file is encoded as UTF-16; save it as UTF-8"},
		"Module16": {map[string]string{"a.go": goSource, "go.mod": "\xfe\xff\x00m"}, "dir/go.mod:1: the file is encoded as UTF-16; save it as UTF-8"},
		"Latin1":   {map[string]string{"a.go": goSource, "b.go": "package a\n\n// gr\xfc\xdfe\n"}, "dir/b.go:3:6: the file is not UTF-8 text (possibly Latin-1"},
		"NUL":      {map[string]string{"a.go": "package a\n\nvar s = \"\x00\"\n", "b.go": goSource}, "dir/a.go:3:10: the file is not UTF-8 text"},
		"Marker":   {map[string]string{"a.go": goSource, "x.go": "package a\n/*\n-- b --\n*/\n"}, "dir/x.go:3:1: the line would start another file"},
		"Name":     {map[string]string{"a.go": goSource, "x.txt ": "x\n"}, "dir/x.txt :1: invalid file name in a Function"},
		"TooLarge": {map[string]string{"a.go": goSource, "b/x.txt": strings.Repeat("x\n", 1<<17)}, "dir/b/x.txt:1: dir contains 262"},
		"Huge":     {map[string]string{"a.go": goSource, "x.txt": strings.Repeat("x\n", 9<<20)}, "dir/x.txt:1: dir contains more than 16.8 MB"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			writeTree(t, c.files)
			_, _, err := manifest.Read("dir", nil)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("Read: %v, want %s", err, c.want)
			}
		})
	}
}

// TestReadDirectoryFollowsLinksInside checks that links inside the directory are followed, such as
// those in a mounted ConfigMap.
func TestReadDirectoryFollowsLinksInside(t *testing.T) {
	writeTree(t, map[string]string{".data/handler.go": goSource})
	if err := os.Symlink(".data/handler.go", "dir/handler.go"); err != nil {
		t.Fatal(err)
	}
	functions, _, err := manifest.Read("dir", nil)
	if err != nil || string(functions[0].Source) != goSource {
		t.Fatalf("Read: %v", err)
	}
	if err := os.Symlink("/etc/hostname", "dir/name.txt"); err != nil {
		t.Fatal(err)
	}
	_, _, err = manifest.Read("dir", nil)
	if invalid, ok := errors.AsType[*handler.Error](err); !ok || invalid.Error() != "dir/name.txt:1: the target of the link is missing or outside of the directory; replace the link by the file" {
		t.Errorf("Read: %v", err)
	}
}

// TestReadTakesModuleAlong checks that the source of a Go file that imports modules includes its
// go.mod, and no other file.
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
			functions, _, err := manifest.Read("dir/a.go", nil)
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
	functions, _, err := manifest.Read("dir", nil)
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
	functions, _, err := manifest.Read("dir", nil)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := manifest.Edits([]manifest.Change{{Function: functions[0], Files: map[string][]byte{
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
	_, _, err := manifest.Read("dir", nil)
	if err == nil || errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "more than 10000 files") {
		t.Errorf("Read: %v", err)
	}
}
