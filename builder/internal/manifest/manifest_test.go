package manifest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
	"goless.io/builder/internal/manifest"
	"goless.io/builder/internal/source"
)

const goSource = "package handlers\n\nfunc Handler() {}\n"

// function returns the YAML of a Function with the source scalar.
func function(name, scalar string) string {
	return "apiVersion: goless.io/v1beta1\nkind: Function\nmetadata:\n  name: " + name + "\nspec:\n  function: " + scalar + "\n"
}

// literal is goSource as a literal block.
var literal = "|\n    " + strings.ReplaceAll(strings.TrimSuffix(goSource, "\n"), "\n", "\n    ")

func read(t *testing.T, name, data string) ([]*manifest.Function, []string, error) {
	t.Helper()
	if name == source.Stdin {
		return manifest.Read(name, strings.NewReader(data))
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	return manifest.Read(name, nil)
}

func TestReadTellsFormsApart(t *testing.T) {
	cases := map[string]struct{ name, data, want string }{
		"Go":           {"hello.go", goSource, "hello"},
		"GoUnnamed":    {"hello", goSource, "hello"},
		"GoStdin":      {"-", goSource, "function"},
		"GoBroken":     {"hello.go", "kind: Function", "hello"},
		"NeitherOne":   {"hello", "func Handler() {}", "hello"},
		"YAML":         {"hello.yaml", function("one", literal), "one"},
		"YAMLUnnamed":  {"hello", function("one", literal), "one"},
		"YAMLStdin":    {"-", function("one", literal), "one"},
		"YAMLSeveral":  {"-", "---\n" + function("one", literal) + "---\n# nothing\n---\n" + function("two", "|\n    "), "one two"},
		"YAMLList":     {"-", "apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(function("one", `"package p"`), "\n", "\n  "), "one"},
		"JSON":         {"-", `{"apiVersion":"goless.io/v1beta1","kind":"Function","metadata":{"name":"one"},"spec":{"function":"package p\n"}}`, "one"},
		"Alias":        {"-", "source: &s |\n  package p\nname: &n one\n" + function("*n", "*s"), "one"},
		"WindowsLines": {"-", strings.ReplaceAll(function("one", literal), "\n", "\r\n"), "one"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			functions, _, err := read(t, c.name, c.data)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range functions {
				names = append(names, f.Name)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("Read returns the Functions %q, want %q", got, c.want)
			}
		})
	}
}

func TestReadKeepsTheSource(t *testing.T) {
	for name, data := range map[string]string{"Go": goSource, "YAML": function("one", literal)} {
		t.Run(name, func(t *testing.T) {
			functions, _, err := read(t, source.Stdin, data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(goSource, string(functions[0].Source)); diff != "" {
				t.Errorf("Source: -want +got\n%s", diff)
			}
		})
	}
}

// TestReadSurrogates checks characters beyond U+FFFF, which some programs, but not kubectl get -o
// json, write as two escapes in JSON. Text that resembles such escapes does not change.
func TestReadSurrogates(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"Pair":    {`{"apiVersion": "goless.io/v1beta1", "kind": "Function", "metadata": {"name": "one"}, "spec": {"function": "package p // \ud83d\uDE00\n"}}`, "package p // \U0001f600\n"},
		"Half":    {`{"apiVersion": "goless.io/v1beta1", "kind": "Function", "metadata": {"name": "one"}, "spec": {"function": "package p // \ud83d.\n"}}`, "package p // \ufffd.\n"},
		"Escaped": {`{"apiVersion": "goless.io/v1beta1", "kind": "Function", "metadata": {"name": "one"}, "spec": {"function": "package p // \\ud83d\\ude00 \u00e9\n"}}`, `package p // \ud83d\ude00 ` + "\u00e9\n"},
		"YAML":    {function("one", "|\n    package p // \\ud83d\\ude00"), `package p // \ud83d\ude00` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			functions, _, err := read(t, "x.json", c.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(functions[0].Source)); diff != "" {
				t.Errorf("Source: -want +got\n%s", diff)
			}
		})
	}
}

// TestReadNamespaces checks that Functions with the same name in different namespaces are
// different.
func TestReadNamespaces(t *testing.T) {
	elsewhere := strings.Replace(function("one", literal), "name: one", "name: one\n  namespace: x", 1)
	functions, _, err := read(t, "x.yaml", function("one", literal)+"---\n"+elsewhere)
	if err != nil || len(functions) != 2 {
		t.Errorf("Read: %d Functions, %v", len(functions), err)
	}
}

func TestReadNotesWhatItLeavesOut(t *testing.T) {
	data := "apiVersion: v1\nkind: Namespace\n---\n" + function("one", literal) + "---\napiVersion: example.com/v1\nkind: Function\n---\nplain text\n"
	_, notes, err := read(t, "all.yaml", data)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"all.yaml:1: Namespace is not a Function of goless.io; skipped",
		"all.yaml:14: Function is not a Function of goless.io; skipped",
		"all.yaml:17: the document is not a Function of goless.io; skipped",
	}
	if diff := cmp.Diff(want, notes); diff != "" {
		t.Errorf("notes: -want +got\n%s", diff)
	}
}

func TestReadRefuses(t *testing.T) {
	cases := map[string]struct {
		name, data, want string
		authors          bool
	}{
		"NoFunction": {"x.yaml", "kind: Namespace\n", "x.yaml contains no Function of goless.io, with apiVersion: goless.io/v1beta1 and kind: Function", false},
		"Empty":      {"x.yaml", "", "x.yaml contains no Function of goless.io, with apiVersion: goless.io/v1beta1 and kind: Function", false},
		"NoName":     {"x.yaml", strings.Replace(function("one", literal), "name: one", "namespace: x", 1), "x.yaml:1:1: metadata.name is missing", true},
		"NoSource":   {"x.yaml", strings.Replace(function("one", "|"), "function: |", "service: x", 1), "x.yaml:6:3: spec.function is missing", true},
		"NoSpec":     {"x.yaml", strings.Replace(function("one", "|"), "spec:\n  function: |\n", "", 1), "x.yaml:1:1: spec is missing", true},
		"Mapping":    {"x.yaml", function("one", "{a: b}"), "x.yaml:6:13: spec.function must be of type string, got an object", true},
		"Templated":  {"x.yaml", function("{{ .Values.name }}", literal), "x.yaml:4:9: metadata.name must be a string", true},
		"OtherKind":  {"x.yaml", function("one", literal) + "---\n" + strings.Replace(function("two", literal), "kind: Function", "kind: Functoin", 1), "x.yaml:12:7: unknown kind Functoin, goless.io/v1beta1 has Function and FunctionClass", true},
		"NameList":   {"x.yaml", function("[one]", literal), "x.yaml:4:9: metadata.name must be a string", true},
		"NullName":   {"x.yaml", function("", literal), "x.yaml:4:8: metadata.name is missing", true},
		"Kind":       {"x.yaml", strings.Replace(function("one", "|"), "kind: Function", "kind: function", 1), "x.yaml:2:7: unknown kind function, goless.io/v1beta1 has Function and FunctionClass", true},
		"Field":      {"x.yaml", "apiVersion: goless.io/v1\nkind: Function\nmetadata:\n  name: one\nspec:\n", "x.yaml:1:13: unknown apiVersion goless.io/v1, want goless.io/v1beta1\nx.yaml:5:6: spec is missing", true},
		"Merged":     {"x.yaml", "apiVersion: v1\nkind: List\nitems:\n- &b {spec: {function: []}}\n- apiVersion: goless.io/v1beta1\n  kind: Function\n  metadata: {name: one}\n  <<: *b\n", "x.yaml:5:3: spec is missing\nx.yaml:8:3: unknown field <<, want one of: apiVersion, kind, metadata, spec, status", true},
		"GoMod":      {"go.mod", "module m\n", "go.mod is not Go source; use the directory of the module: .", false},
		"Binary":     {"x.zip", "PK\x03\x04\x00", "x.zip is not text", false},
		"UTF16":      {"x.yaml", "\xff\xfea\x00", "x.yaml:1: the file is encoded as UTF-16; save it as UTF-8", true},
		"UTF16Go":    {"x.go", "\xfe\xff\x00p", "x.go:1: the file is encoded as UTF-16; save it as UTF-8", true},
		"Latin1":     {"x.yaml", "kind: Namespace\n# gr\xfc\xdfe\n", "x.yaml:2: the file is not UTF-8 (possibly Latin-1 or Windows-1252); save it as UTF-8", true},
		"Twice":      {"x.yaml", function("one", literal) + "  function: |\n    package p\n", "x.yaml:10:3: duplicate function, the first is in line 6; remove one", true},
		"SameName":   {"x.yaml", function("one", literal) + "---\n" + function("one", literal), "x.yaml:14:9: duplicate Function one, the first is in line 4; remove or rename one", true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(t, c.name, c.data)
			if err == nil || err.Error() != c.want {
				t.Errorf("Read: %v, want %s", err, c.want)
			}
			if _, ok := errors.AsType[*handler.Error](err); ok != c.authors {
				t.Errorf("Read: %T, the author's fault: %t", err, c.authors)
			}
		})
	}
}

// TestReadLocatesSyntaxErrors checks that syntax errors have the message and line of the parser.
func TestReadLocatesSyntaxErrors(t *testing.T) {
	const head = "kind: Function\nmetadata:\n  name: m\n"
	for name, c := range map[string]struct{ data, want string }{
		"First":    {"a: b: c\n", "1: mapping values are not allowed in this context"},
		"Values":   {head + "c: d: e\n", "4: mapping values are not allowed in this context"},
		"Colon":    {head + "spec:\n  function: |\n    package p\n\nfunc f() {\n}\nfunc g()\n", "8: could not find expected ':'"},
		"TabFirst": {head + "spec:\n\ta: b\n", "5: found character that cannot start any token"},
		"JSON":     {`{"kind": "Function"`, "1: did not find expected ',' or '}'"},
		"Alias":    {head + "spec: *x\na: b\nc: d\n", "1: unknown anchor 'x' referenced"},
		"Document": {head + "---\n" + head + "c: d: e\n", "8: mapping values are not allowed in this context"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(t, "x.yaml", c.data)
			if err == nil || err.Error() != "x.yaml:"+c.want {
				t.Errorf("Read: %v, want %s", err, c.want)
			}
		})
	}
}

func TestReadReportsMissingFiles(t *testing.T) {
	if _, _, err := manifest.Read(filepath.Join(t.TempDir(), "none.go"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Read: %v, want os.ErrNotExist", err)
	}
}

func TestLocate(t *testing.T) {
	at := handler.Diagnostic{File: "handler.go", Line: 3, Column: 6, Message: "declared twice, the first is at handler.go:1:9"}
	cases := map[string]struct {
		name, data string
		want       string
	}{
		"Archive":   {"x.txtar", "-- other.go --\npackage p\n-- handler.go --\n" + goSource, "x.txtar:6:6: declared twice, the first is at x.txtar:4:9"},
		"InYAML":    {"x.yaml", function("one", "|\n    -- handler.go --\n    "+strings.TrimPrefix(literal, "|\n    ")), "x.yaml:10:10: declared twice, the first is at x.yaml:8:13"},
		"Unknown":   {"x.txtar", "-- other.go --\npackage p\n", "x.txtar:1: handler.go:3:6: declared twice, the first is at handler.go:1:9"},
		"Go":        {"dir.go", goSource, "dir.go:3:6: declared twice, the first is at dir.go:1:9"},
		"Literal":   {"x.yaml", function("one", literal), "x.yaml:9:10: declared twice, the first is at x.yaml:7:13"},
		"Second":    {"x.yaml", "a: b\n---\n" + function("one", literal), "x.yaml:11:10: declared twice, the first is at x.yaml:9:13"},
		"Indented":  {"x.yaml", function("one", "|1-  # kept\n    package handlers\n\n    func Handler() {}"), "x.yaml:9:9: declared twice, the first is at x.yaml:7:12"},
		"Windows":   {"x.yaml", strings.ReplaceAll(function("one", literal), "\n", "\r\n"), "x.yaml:9:10: declared twice, the first is at x.yaml:7:13"},
		"NextLine":  {"x.yaml", function("one", "\n    "+literal), "x.yaml:10:10: declared twice, the first is at x.yaml:8:13"},
		"Alias":     {"x.yaml", "source: &s " + literal + "\n" + function("one", "*s"), "x.yaml:4:10: declared twice, the first is at x.yaml:2:13"},
		"Quoted":    {"x.yaml", function("one", `"package p\n\nfunc Handler() {}"`), "x.yaml:6:13: line 3 of the source: declared twice, the first is at x.yaml:6:13"},
		"Plain":     {"x.yaml", function("one", "\n    package p\n\n    func Handler() {}"), "x.yaml:7:5: line 3 of the source, whose lines need function: | above them: declared twice, the first is at x.yaml:7:5"},
		"Truncated": {"x.yaml", function("one", "|\n    package p"), "x.yaml:6:13: line 3 of the source: declared twice, the first is at x.yaml:7:13"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			functions, _, err := read(t, c.name, c.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, functions[len(functions)-1].Locate(at).String()); diff != "" {
				t.Errorf("Locate: -want +got\n%s", diff)
			}
		})
	}
}

// TestMentions covers stack traces with the import path of a package, including the version of its
// module unless that is the main module.
func TestMentions(t *testing.T) {
	const archive = "package p\n-- sub/sub.go --\npackage sub\n-- go.mod --\nmodule example.com/m/v2\n"
	functions, _, err := read(t, "x.txtar", archive)
	if err != nil {
		t.Fatal(err)
	}
	for _, stack := range []string{"\t%s/sub/sub.go:1 +0x28", `"main.f()\n\t%s/handler.go:3 +0x28"`} {
		for _, module := range []string{"example.com/m/v2", "example.com/m/v2@v2.0.0"} {
			want := strings.NewReplacer("%s/sub/sub.go:1", "x.txtar:3", "%s/handler.go:3", "x.txtar:3").Replace(stack)
			if diff := cmp.Diff(want, functions[0].Mentions(strings.Replace(stack, "%s", module, 1))); diff != "" {
				t.Errorf("Mentions: -want +got\n%s", diff)
			}
		}
	}
	const other = "\texample.com/other@v1.0.0/handler.go:3 +0x28"
	if got := functions[0].Mentions(other); got != other {
		t.Errorf("Mentions(%s) = %s", other, got)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(goSource)
	f.Add(function("one", literal))
	f.Add("a: &a {<<: [*a, *a, *a], b: c}\n<<: [*a, *a, *a]\n")
	f.Add("--- \n...\n--- &a\nkind: List\nitems: *a\n")
	f.Fuzz(func(t *testing.T, data string) {
		functions, _, err := manifest.Read(source.Stdin, strings.NewReader(data))
		if err != nil {
			return
		}
		for _, function := range functions {
			at := function.Locate(handler.Diagnostic{File: "handler.go", Line: 2, Column: 1, Message: "m"})
			if at.Line < 1 || at.Line > 2+strings.Count(data, "\n") {
				t.Errorf("%+v is not in the input", at)
			}
		}
	})
}
