package manifest_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/source"
)

const archive = "-- go.mod --\nmodule m\n--  a.go  --\npackage a\n\nfunc A() {}\n-- b/b.go --\npackage b\n"

// edited returns the input after a change of its first Function.
func edited(t *testing.T, name, data string, files map[string]string) string {
	t.Helper()
	functions, _, err := read(t, name, data)
	if err != nil {
		t.Fatal(err)
	}
	change := manifest.Change{Function: functions[0], Files: map[string][]byte{}}
	for file, content := range files {
		change.Files[file] = []byte(content)
	}
	edits, err := manifest.Edits([]manifest.Change{change})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		if e.Path == name {
			if string(e.Old) != data {
				t.Errorf("Old is %q, want %q", e.Old, data)
			}
			return string(e.New)
		}
	}
	return data
}

func TestEdits(t *testing.T) {
	indented := func(source string) string {
		return "|\n    " + strings.ReplaceAll(strings.TrimSuffix(source, "\n"), "\n", "\n    ")
	}
	changed := strings.Replace(archive, "package a\n\nfunc A() {}", "package a", 1)
	cases := map[string]struct {
		name, data string
		files      map[string]string
		want       string
	}{
		"Go":           {"x.go", goSource, map[string]string{"handler.go": "package q\n"}, "package q\n"},
		"Same":         {"x.go", goSource, map[string]string{"handler.go": goSource}, goSource},
		"Archive":      {"x.txtar", archive, map[string]string{"a.go": "package a\n"}, changed},
		"ArchiveIsGo":  {"handler.go", archive, map[string]string{"a.go": "package a\n"}, changed},
		"Last":         {"x.txtar", archive, map[string]string{"b/b.go": "package c\n"}, strings.Replace(archive, "package b", "package c", 1)},
		"Several":      {"x.txtar", archive, map[string]string{"go.mod": "module n\n", "b/b.go": "package c\n"}, strings.NewReplacer("module m", "module n", "package b", "package c").Replace(archive)},
		"Added":        {"x.txtar", archive, map[string]string{"go.sum": "x\n"}, archive + "-- go.sum --\nx\n"},
		"NoBreakAtEnd": {"x.txtar", strings.TrimSuffix(archive, "\n"), map[string]string{"go.sum": "x"}, archive + "-- go.sum --\nx\n"},
		"Emptied":      {"x.txtar", archive, map[string]string{"a.go": ""}, "-- go.mod --\nmodule m\n--  a.go  --\n-- b/b.go --\npackage b\n"},
		"Filled":       {"x.txtar", "-- a.go --\n-- b.go --\n", map[string]string{"a.go": "package a\n"}, "-- a.go --\npackage a\n-- b.go --\n"},
		"NoBreak":      {"x.txtar", "-- a.go --\n-- go.sum --", map[string]string{"go.sum": "x\n"}, "-- a.go --\n-- go.sum --\nx\n"},
		"YAML":         {"x.yaml", function("one", indented(archive)) + "  replicas: 2\n", map[string]string{"a.go": "package a\n"}, function("one", indented(changed)) + "  replicas: 2\n"},
		"YAMLOneFile":  {"x.yaml", function("one", literal), map[string]string{"go.mod": "module m\n"}, strings.ReplaceAll(function("one", indented(goSource+"-- go.mod --\nmodule m\n")), "    \n", "\n")},
		"YAMLStripped": {"x.yaml", function("one", "|-\n    package p") + "  replicas: 2\n", map[string]string{"handler.go": "package q\n"}, function("one", "|-\n    package q") + "  replicas: 2\n"},
		"YAMLNoBreak":  {"x.yaml", function("one", literal) + "  replicas: 2\n", map[string]string{"handler.go": "package q"}, function("one", "|\n    package q") + "  replicas: 2\n"},
		"YAMLWindows":  {"x.yaml", strings.ReplaceAll(function("one", literal), "\n", "\r\n"), map[string]string{"handler.go": "package q\n"}, strings.ReplaceAll(function("one", indented("package q\n")), "\n", "\r\n")},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, edited(t, c.name, c.data, c.files)); diff != "" {
				t.Errorf("Edits: -want +got\n%s", diff)
			}
		})
	}
}

// TestEditsBesideGoFiles checks that files are added next to a Go file.
func TestEditsBesideGoFiles(t *testing.T) {
	functions, _, err := read(t, "x.go", goSource)
	if err != nil {
		t.Fatal(err)
	}
	edits, err := manifest.Edits([]manifest.Change{{Function: functions[0], Files: map[string][]byte{"go.mod": []byte("module m\n")}}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]manifest.Edit{{Path: "go.mod", New: []byte("module m\n")}}, edits); diff != "" {
		t.Errorf("Edits: -want +got\n%s", diff)
	}
}

func TestEditsRefuse(t *testing.T) {
	for name, c := range map[string]struct{ scalar, with, want string }{
		"Quoted":     {`"package p"`, "package q\n", "x.yaml:6: spec.function of one can only be changed in a literal block"},
		"Characters": {"|\n    package p", "package q // \x07\n", "x.yaml:6: the new source of one contains characters"},
	} {
		t.Run(name, func(t *testing.T) {
			functions, _, err := read(t, "x.yaml", function("one", c.scalar))
			if err != nil {
				t.Fatal(err)
			}
			_, err = functions[0].Replace([]byte(c.with))
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("Replace: %v, want %s", err, c.want)
			}
		})
	}
}

// TestEditsRefuseInOrder checks that the error names the first Function that cannot be changed.
func TestEditsRefuseInOrder(t *testing.T) {
	functions, _, err := read(t, "x.yaml", function("one", `"package p"`)+"---\n"+function("two", `"package p"`))
	if err != nil {
		t.Fatal(err)
	}
	var changes []manifest.Change
	for _, f := range functions {
		changes = append(changes, manifest.Change{Function: f, Files: map[string][]byte{handler.Filename: []byte("package q\n")}})
	}
	if _, err := manifest.Edits(changes); err == nil || !strings.HasPrefix(err.Error(), "x.yaml:6: spec.function of one ") {
		t.Errorf("Edits: %v", err)
	}
}

// FuzzFormat checks that any source can be read from its YAML.
func FuzzFormat(f *testing.F) {
	for _, text := range []string{"", goSource, archive, " x\n", "\n\n x", "x\n\n\n", "a\r\nb", "\u2028\u0085\ufeff", "\t\n \n", "- x: y #z\n", "\x7f\x00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		written, err := manifest.Format("one", []byte(text))
		if err != nil {
			if text != strings.ToValidUTF8(text, "") {
				return
			}
			t.Fatal(err)
		}
		functions, _, err := manifest.Read(source.Stdin, bytes.NewReader(written))
		if err != nil || len(functions) != 1 || string(functions[0].Source) != text {
			t.Errorf("%v\n%s", err, written)
		}
	})
}

// FuzzEdits checks that a change of one file does not change others.
func FuzzEdits(f *testing.F) {
	f.Add(archive, uint(1), "package a\n")
	f.Add("\ufeff-- a --\n-- b --", uint(0), "x")
	f.Add("package p\n-- a --\r\nx\r\n", uint(0), "")
	f.Fuzz(func(t *testing.T, text string, which uint, content string) {
		functions, _, err := manifest.Read(source.Stdin, strings.NewReader(text))
		if err != nil || !handler.IsArchive([]byte(text)) || strings.Contains(content, "-- ") {
			return
		}
		before := functions[0].Files()
		changed := before[which%uint(len(before))].Name
		edits, err := manifest.Edits([]manifest.Change{{Function: functions[0], Files: map[string][]byte{changed: []byte(content)}}})
		if err != nil || len(edits) != 1 {
			return
		}
		after := handler.Split(handler.Filename, edits[0].New)
		if len(after) != len(before) {
			return // an empty file before the first marker does not count
		}
		for i, file := range before {
			if file.Name != changed && !bytes.Equal(bytes.TrimSuffix(after[i].Data, []byte("\n")), bytes.TrimSuffix(file.Data, []byte("\n"))) {
				t.Errorf("%s was %q and is %q", file.Name, file.Data, after[i].Data)
			}
		}
	})
}

func TestReadServing(t *testing.T) {
	data := strings.TrimSuffix(function("one", literal), "\n") + `
  serverPort: 9000
  timeout: 30s
  concurrency: 5
  env:
  - {name: A, value: b=c}
  - {name: EMPTY}
  - {name: NULL, value: null}
  - {name: TOKEN, valueFrom: {secretKeyRef: {name: s, key: t}}}
  envFrom:
  - secretRef: {name: credentials}
`
	functions, _, err := read(t, "x.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	want := manifest.Serving{
		Port: 9000, Timeout: "30s", Concurrency: "5",
		Env: []string{"A=b=c", "EMPTY=", "NULL="}, Elsewhere: []string{"TOKEN", "all of credentials"},
	}
	if diff := cmp.Diff(want, functions[0].Serving); diff != "" {
		t.Errorf("Serving: -want +got\n%s", diff)
	}
	if _, err := os.Stat("x.yaml"); err != nil {
		t.Error(err)
	}
}
