package handler_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/handler"
)

const hello = `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {
	w.Write([]byte("This works!"))
}
`

func TestParseAccepts(t *testing.T) {
	cases := map[string]string{
		"Hello":          hello,
		"Unnamed":        "package p\nimport \"net/http\"\nfunc Handler(http.ResponseWriter, *http.Request) {}",
		"Blank":          "package p\nimport \"net/http\"\nfunc Handler(_ http.ResponseWriter, _ *http.Request) {}",
		"Alias":          "package p\nimport web \"net/http\"\nfunc Handler(w web.ResponseWriter, r *web.Request) {}",
		"ImportedTwice":  "package p\nimport web \"net/http\"\nimport \"net/http\"\nfunc Handler(w web.ResponseWriter, r *http.Request) {}",
		"Dot":            "package p\nimport . \"net/http\"\nfunc Handler(w ResponseWriter, r *Request) {}",
		"Parentheses":    "package p\nimport \"net/http\"\nfunc Handler(w (http.ResponseWriter), r (*(http.Request))) () {}",
		"ParameterNames": "package p\nimport \"net/http\"\nfunc Handler(http http.ResponseWriter, Handler *http.Request) {}",
		"ByteOrderMark":  "\uFEFF" + hello,
		"CRLF":           strings.ReplaceAll(hello, "\n", "\r\n"),
		"MethodBeside":   hello + "type T struct{}\nfunc (T) Handler() {}",
		"LocalBeside":    hello + "func f() { var Handler int; type T struct{ Handler int }; _ = Handler }",
		"Unsafe":         strings.Replace(hello, "import", "import _ \"unsafe\"\nimport", 1),
		"Comment":        "//line up here\n// line a:1\n //go:linknames\n" + hello + "var s = `\n//line a:1\n//go:embed x`",
		"Longest":        hello + "//" + strings.Repeat("ü", handler.MaxCharacters-len(hello)-2),
		"Init":           hello + "func init() {}\nfunc init() {}",
		"Constraint":     "//go:build linux && (amd64 || arm64) && go1.21 && !cgo\n\n" + hello,
		"OldConstraint":  "// +build !windows,go1.18\n\n" + hello,
		"Misplaced":      hello + "//go:build windows\nvar x int",
		"Runtime":        strings.Replace(hello, "import", "import _ \"goless.io/runtime\"\nimport _ \"goless.io/runtime/otlp\"\nimport", 1),
		"Blanks":         hello + "var _, _ = 1, 2\nfunc _() {}\nfunc _() {}\ntype T int\nfunc (T) _() {}\nfunc (T) _() {}",
		"GenericMethods": hello + "type T int\n" + strings.Repeat("func (T) _[K any](K) {}\n", 30),
		"NoHooks":        hello + "type Start int\nvar Stop = 1\nfunc (Start) Ready() {}",
		"Methods":        hello + "type A int\ntype B int\nfunc (A) M() {}\nfunc (B) M() {}\nfunc M() {}",
		"Generics":       hello + "func Map[T any](s []T, f func(T) T) []T { for i := range s { s[i] = f(s[i]) }; return s }",
	}
	for name, src := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := handler.Parse("handler.go", []byte(src)); err != nil {
				t.Errorf("Parse: %v", err)
			}
		})
	}
}

func TestParseDescribes(t *testing.T) {
	src := "package p\nimport (\n\"net/http\"\n\"fmt\"\n_ \"net/http\"\n)\nfunc Handler(http.ResponseWriter, *http.Request) { fmt.Println() }"
	got, err := handler.Parse("handler.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	want := &handler.Source{
		Package: "p",
		Dir:     ".",
		Files:   []handler.File{{Name: "handler.go", Line: 1, Data: []byte(src)}},
		Imports: []handler.Import{
			{File: "handler.go", Path: "net/http", Line: 3, Column: 1},
			{File: "handler.go", Path: "fmt", Line: 4, Column: 1},
			{File: "handler.go", Path: "net/http", Line: 5, Column: 3},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Parse: -want +got\n%s", diff)
	}
}

func TestParseRejects(t *testing.T) {
	const header = "package p\nimport \"net/http\"\n"
	const good = "func Handler(http.ResponseWriter, *http.Request) {}\n"
	const wrong = "h.go:3:1: wrong signature for Handler, want: func Handler(http.ResponseWriter, *http.Request)"

	cases := map[string]struct{ src, want string }{
		"Empty":        {"", "h.go:1:1: the source is empty; write a package with func Handler(http.ResponseWriter, *http.Request)"},
		"White":        {"\uFEFF \n\t", "h.go:1:1: the source is empty; write a package with func Handler(http.ResponseWriter, *http.Request)"},
		"TooLong":      {header + good + strings.Repeat("ü", handler.MaxCharacters), "h.go:1:1: the source has 245840 characters, at most 245760 are allowed"},
		"NUL":          {header + good + "// \x00", "h.go:4:4: the source contains a NUL character; remove it"},
		"InvalidUTF8":  {header + good + "// ü\xff", "h.go:4:6: the source is not UTF-8 (possibly Latin-1 or Windows-1252); save it as UTF-8"},
		"Main":         {"package main\nimport \"net/http\"\n" + good, "h.go:1:9: package main cannot be imported; use another name: package handlers"},
		"BlankPackage": {"package _\nimport \"net/http\"\n" + good, "h.go:1:9: package _ cannot be imported; use another name: package handlers"},
		"Docs":         {"package documentation\nimport \"net/http\"\n" + good, "h.go:1:9: package documentation is never compiled; use another name: package handlers"},
		"TestPackage":  {"package p_test\nimport \"net/http\"\n" + good, "h.go:1:9: package p_test is for tests; use another name: package handlers"},
		"Missing":      {header, "h.go:1:9: no Handler declared; add: func Handler(http.ResponseWriter, *http.Request)"},
		"Renamed":      {header + "func Hello(w http.ResponseWriter, r *http.Request) {}", "h.go:3:1: no Handler declared; rename Hello to Handler"},
		"Method":       {header + "type T struct{}\nfunc (T) Handler(http.ResponseWriter, *http.Request) {}", "h.go:4:1: Handler is a method, want a function: func Handler(http.ResponseWriter, *http.Request)"},
		"Generic":      {header + "func Handler[T any](http.ResponseWriter, *http.Request) {}", "h.go:3:1: Handler must not have type parameters, want: func Handler(http.ResponseWriter, *http.Request)"},
		"NoBody":       {header + "func Handler(http.ResponseWriter, *http.Request)", "h.go:3:1: Handler has no body; add one in braces"},
		"NotImported":  {"package p\n\n" + good, `h.go:3:1: Handler needs the package http, add: import "net/http"`},
		"Var":          {header + "var Handler http.HandlerFunc", "h.go:3:5: Handler is declared with var, want a function: func Handler(http.ResponseWriter, *http.Request)"},
		"Type":         {header + "type (\n\tHandler int\n)", "h.go:4:2: Handler is declared with type, want a function: func Handler(http.ResponseWriter, *http.Request)"},
		"Const":        {header + "const a, Handler = 1, 2", "h.go:3:10: Handler is declared with const, want a function: func Handler(http.ResponseWriter, *http.Request)"},
		"Cgo":          {header + "import \"C\"\n" + good, `h.go:3:8: cannot import "C": functions are built without cgo`},
		"ThirdParty":   {header + "import x \"example.com/x/y\"\n" + good, `h.go:3:10: cannot import "example.com/x/y": without a go.mod only the standard library can be imported; add one with: builder tidy FILE`},
		"URL":          {header + "import \"https://github.com/a/b\"\n" + good, `h.go:3:8: cannot import "https://github.com/a/b": an import path is not a URL; write it without https://`},
		"Version":      {header + "import \"example.com/a@v1.2.3\"\n" + good, `h.go:3:8: cannot import "example.com/a@v1.2.3": the version belongs in go.mod, not in the import path; write it without @v1.2.3`},
		"Relative":     {header + "import \"./x\"\n" + good, `h.go:3:8: cannot import "./x": relative imports are not allowed; write the full import path`},
		"Unclean":      {header + "import \"net//http\"\n" + good, `h.go:3:8: cannot import "net//http": the path is not clean; write net/http`},
		"Internal":     {header + "import _ \"internal/abi\"\nimport _ \"net/http/internal\"\n" + good, "h.go:3:10: cannot import \"internal/abi\": it is internal to the Go distribution\nh.go:4:10: cannot import \"net/http/internal\": it is internal to the Go distribution"},
		"Misspelled":   {strings.Replace(header, "net/http", "net/httpx", 1) + good, "h.go:2:8: cannot import \"net/httpx\": the standard library of go1.27.4 has no such package for linux\nh.go:3:1: Handler needs the package http, add: import \"net/http\""},
		"Command":      {header + "import \"cmd/go\"\n" + good, `h.go:3:8: cannot import "cmd/go": it is internal to the Go distribution`},
		"Ours":         {header + "import \"goless.io/builder\"\n" + good, `h.go:3:8: cannot import "goless.io/builder": it is part of the generated program; a function may import goless.io/runtime and goless.io/runtime/otlp`},
		"Line":         {header + good + "//line /etc/passwd:1", "h.go:4:1: line directives are not allowed, because they change the positions of errors; remove this line"},
		"LineBlock":    {header + "var x = /*line y:1:1*/ 1\n" + good, "h.go:3:9: line directives are not allowed, because they change the positions of errors; remove this line"},
		"Linkname":     {header + "//go:linkname f runtime.f\nfunc f()\n" + good, "h.go:3:1: //go:linkname is not allowed; remove it"},
		"Embed":        {header + "//go:embed *\nvar s string\n" + good, "h.go:3:1: //go:embed has nothing to embed: the source is a single file; create a source from a directory with: builder pack DIR"},
		"Constraint":   {"//go:build windows\n\n" + header + good, "h.go:1:1: the build constraint excludes the source; remove it, because functions are built for linux/amd64 with go1.27 and without cgo"},
		"OldStyle":     {"// +build !linux\n\n" + header + good, "h.go:1:1: the build constraint excludes the source; remove it, because functions are built for linux/amd64 with go1.27 and without cgo"},
		"CgoOnly":      {"\n//go:build cgo\n" + header + good, "h.go:2:1: the build constraint excludes the source; remove it, because functions are built for linux/amd64 with go1.27 and without cgo"},
		"IntelOnly":    {"//go:build amd64\n\n" + header + good, "h.go:1:1: the build constraint excludes the source; remove it, because functions are built for linux/arm64 with go1.27 and without cgo"},
		"NewerGo":      {"//go:build go1.28\n\n" + header + good, "h.go:1:1: the build constraint excludes the source; remove it, because functions are built for linux/amd64 with go1.27 and without cgo"},
		"Experiment":   {"//go:build linux || !goexperiment.jsonv2\n\n" + header + good, "h.go:1:1: the build constraint goexperiment.jsonv2 depends on the settings of the toolchain; remove it"},
		"Boring":       {"//go:build !boringcrypto\n\n" + header + good, "h.go:1:1: the build constraint boringcrypto depends on the settings of the toolchain; remove it"},
		"NoConstraint": {"//go:build linux &&\n\n" + header + good, "h.go:1:1: cannot parse the build constraint: parsing //go:build line: unexpected end of expression"},
		"CgoDirective": {header + "//go:cgo_ldflag \"-lm\"\n" + good, "h.go:3:1: cgo directives are not allowed, because functions are built without cgo; remove this line"},
		"Alias":        {header + "type W = http.ResponseWriter\nfunc Handler(w W, r *http.Request) {}", strings.Replace(wrong, ":3:", ":4:", 1)},
		"Start":        {header + good + "func Start() error { return nil }", "h.go:4:1: wrong signature for Start, want: func Start(context.Context) error, or use another name"},
		"Stop":         {header + good + "func Stop[T any]() {}", "h.go:4:1: Stop must not have type parameters, want: func Stop(context.Context) error, or use another name"},
		"Ready":        {header + good + "func Ready(ctx context.Context) error { return nil }", `h.go:4:1: Ready needs the package context, add: import "context"`},
		"NoStop":       {header + "import \"context\"\n" + good + "func Stop(context.Context) error", "h.go:5:1: Stop has no body; add one in braces"},
		"Syntax":       {header + "func Handler(http.ResponseWriter, *http.Request) {\n\tif {\n}", "h.go:4:5: missing condition in if statement"},
		"SyntaxForged": {header + "//line evil\rERROR:1\nfunc", "h.go:4:5: expected 'IDENT', found 'EOF'"},
		"SyntaxAtEnd":  {header + good + "func f() {\n\n", "h.go:4:11: expected '}', found 'EOF'"},
		"SyntaxQuotes": {header + "func `a\nb\x1b[31m\u202e`", "h.go:3:6: expected 'IDENT', found `a b?[31m?`"},
		"OtherName":    {"package p\nimport h \"net/http\"\n" + good, `h.go:3:1: Handler needs the package http, which is imported as h; use h`},
		"Conflict":     {header + "<<<<<<< HEAD\n" + good + "=======\n", "h.go:3:1: expected declaration, found '<<'"},
		"Markdown":     {"```go\n" + header + good + "```\n", "h.go:1:1: expected 'package', found ``"},
		"Marker":       {header + good + "-- util.go -- \npackage p\n", "h.go:4:1: expected declaration, found '--'; the line above each file of an archive must be exactly: -- NAME --"},
		"Several":      {"package main\nimport \"C\"\nfunc Handler() {}", "h.go:1:9: package main cannot be imported; use another name: package handlers\nh.go:2:8: cannot import \"C\": functions are built without cgo\nh.go:3:1: wrong signature for Handler, want: func Handler(http.ResponseWriter, *http.Request)"},
		"NoParameters": {header + "func Handler() {}", wrong},
		"OneName":      {header + "func Handler(w, r http.ResponseWriter) {}", wrong},
		"Value":        {header + "func Handler(w http.ResponseWriter, r http.Request) {}", wrong},
		"Pointer":      {header + "func Handler(w *http.ResponseWriter, r *http.Request) {}", wrong},
		"Swapped":      {header + "func Handler(r *http.Request, w http.ResponseWriter) {}", wrong},
		"Result":       {header + "func Handler(w http.ResponseWriter, r *http.Request) error { return nil }", wrong},
		"Variadic":     {header + "func Handler(w http.ResponseWriter, r ...*http.Request) {}", wrong},
		"OtherHTTP":    {"package p\nimport http \"html\"\nfunc Handler(w http.ResponseWriter, r *http.Request) {}", `h.go:3:1: Handler needs the package http, add: import "net/http"`},
		"SideEffect":   {"package p\nimport _ \"net/http\"\nfunc Handler(w http.ResponseWriter, r *http.Request) {}", `h.go:3:1: Handler needs the package http, add: import "net/http"`},
		"Undotted":     {header + "type Request int\ntype ResponseWriter int\nfunc Handler(w ResponseWriter, r *Request) {}", strings.Replace(wrong, ":3:", ":5:", 1)},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := handler.Parse("h.go", []byte(c.src))
			if err == nil {
				t.Fatal("Parse accepts the source")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("Parse: -want +got\n%s", diff)
			}
		})
	}
}

func TestParseBoundsDiagnostics(t *testing.T) {
	src := hello + strings.Repeat("//go:linkname a b\n", 25) + "type T struct{ s string `" + strings.Repeat("x", 10000) + "`}"
	_, err := handler.Parse("handler.go", []byte(src))
	rejected, ok := errors.AsType[*handler.Error](err)
	if !ok {
		t.Fatalf("Parse: %v, want a *handler.Error", err)
	}
	if len(rejected.Diagnostics) != 10 || rejected.Omitted != 15 {
		t.Errorf("Parse returns %d diagnostics and omits %d, want 10 and 15", len(rejected.Diagnostics), rejected.Omitted)
	}
	if !strings.HasSuffix(err.Error(), "\nand 15 more") {
		t.Errorf("Error does not say how many were omitted:\n%s", err)
	}
}

func TestNewDiagnosticBoundsMessage(t *testing.T) {
	d := handler.NewDiagnostic("h.go", 1, 2, strings.Repeat("ü\n", 1000))
	if len(d.Message) > 400 || strings.ContainsAny(d.Message, "\n\uFFFD") {
		t.Errorf("message of %d bytes: %q", len(d.Message), d.Message)
	}
}

func TestParseFindsHooks(t *testing.T) {
	const src = `package p

import (
	. "context"
	stdctx "context"
	"net/http"
)

func Ready(Context) error                 { return nil }
func Start((stdctx.Context)) (err error)  { return nil }
func Handler(http.ResponseWriter, *http.Request) {}
`
	got, err := handler.Parse("handler.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"Start", "Ready"}, got.Hooks); diff != "" {
		t.Errorf("hooks: -want +got\n%s", diff)
	}
}

func ExampleParse() {
	_, err := handler.Parse("handler.go", []byte("package handlers\n\nfunc Handler() {}\n"))
	fmt.Println(err)
	// Output: handler.go:3:1: wrong signature for Handler, want: func Handler(http.ResponseWriter, *http.Request)
}

// TestStandard compares with the packages of the local toolchain, which may be older.
func TestStandard(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "list", "std")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0", "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	src := "package p\n\nimport (\n\t\"net/http\"\n"
	for path := range strings.FieldsSeq(string(out)) {
		elements := strings.Split(path, "/")
		if elements[0] != "vendor" && !slices.Contains(elements, "internal") {
			src += "\t_ \"" + path + "\"\n"
		}
	}
	if _, err := handler.Parse("h.go", []byte(src+")\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n")); err != nil {
		t.Error(err)
	}
}
