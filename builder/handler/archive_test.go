package handler_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/mod/modfile"

	"goless.io/builder/handler"
)

// moduleFile is a go.mod without requirements.
const moduleFile = "-- go.mod --\nmodule example.com/hello\n\ngo 1.26\n"

func TestIsArchive(t *testing.T) {
	cases := map[string]struct {
		src  string
		want bool
	}{
		"Go":            {hello, false},
		"Empty":         {"", false},
		"Archive":       {"-- a.go --\n" + hello, true},
		"LeadingFile":   {hello + "-- a.txt --\n", true},
		"CRLF":          {"-- a.go --\r\n" + hello, true},
		"ByteOrderMark": {"\uFEFF-- a.go --\n" + hello, true},
		"Unfinished":    {"-- a.go --", true},
		"InString":      {hello + "var s = `\n-- a.go --\n`\n", false},
		"InComment":     {hello + "/*\n-- a.go --\n*/\n", false},
		"Decrement":     {"package p\nfunc f(i int) {\n-- i\n}\n", false},
		"NoName":        {"--  --\n", false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := handler.IsArchive([]byte(c.src)); got != c.want {
				t.Errorf("IsArchive = %t, want %t", got, c.want)
			}
		})
	}
}

func TestFormat(t *testing.T) {
	files := []handler.File{
		{Name: "a.go", Line: 2, Data: []byte("package p\n")},
		{Name: "empty", Line: 4},
		{Name: "a/picture", Line: 5, Data: []byte(strings.Repeat("\x00\xff", 100)), Encoded: true},
		{Name: "archive", Line: 10, Data: []byte("a\n-- b --\nc"), Encoded: true},
		{Name: "go.sum", Line: 12, Data: []byte("\xff\n")},
	}
	if diff := cmp.Diff(files, handler.Split("x.go", handler.Format(files)), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Split of Format: -want +got\n%s", diff)
	}
}

func TestSplit(t *testing.T) {
	file := func(name string, line int, data string) handler.File {
		return handler.File{Name: name, Line: line, Data: []byte(data)}
	}
	cases := map[string]struct {
		src  string
		want []handler.File
	}{
		"Go":           {"package p", []handler.File{file("x.go", 1, "package p")}},
		"LeadingFile":  {"package p\n-- a.txt --\na\nb\n-- b --\n", []handler.File{file("handler.go", 1, "package p\n"), file("a.txt", 3, "a\nb\n"), file("b", 6, "")}},
		"LeadingBlank": {"\n \n-- ../a --\na\n-- ../a --\nb", []handler.File{file("../a", 4, "a\n"), file("../a", 6, "b\n")}},
		"Comment":      {"Read this.\n\n-- a.go --\npackage p\n", []handler.File{file("a.go", 4, "package p\n")}},
		"LeadingTypo":  {"pakage p\nimport \"x\"\n-- a.go --\npackage p\n", []handler.File{file("handler.go", 1, "pakage p\nimport \"x\"\n"), file("a.go", 4, "package p\n")}},
		"LeadingProse": {"Read this.\n-- a --\n", []handler.File{file("handler.go", 1, "Read this.\n"), file("a", 3, "")}},
		"Encoded":      {"-- base64:a/b --\nAP\n8=\n-- c --\n", []handler.File{{Name: "a/b", Line: 2, Data: []byte("\x00\xff"), Encoded: true}, file("c", 5, "")}},
		"NotEncoded":   {"-- base64:a --\n!\n-- base64:b.go --\nAP8=\n", []handler.File{file("base64:a", 2, "!\n"), file("base64:b.go", 4, "AP8=\n")}},
		"CRLF":         {"\uFEFF-- a --\r\na\r\n-- b --\r\n", []handler.File{file("a", 2, "a\r\n"), file("b", 4, "")}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, handler.Split("x.go", []byte(c.src))); diff != "" {
				t.Errorf("Split: -want +got\n%s", diff)
			}
		})
	}
}

func TestParseAcceptsArchives(t *testing.T) {
	const util = "-- util/util.go --\npackage util\n"
	cases := map[string]string{
		"OneFile":       "-- a.go --\n" + hello,
		"LeadingFile":   hello + "-- b.go --\npackage handlers\n",
		"CRLF":          strings.ReplaceAll(hello+moduleFile+util, "\n", "\r\n"),
		"OwnPackage":    strings.Replace(hello, "import", "import _ \"example.com/hello/util\"\nimport", 1) + moduleFile + util,
		"NoDot":         strings.Replace(hello, "import", "import _ \"hello/internal/util\"\nimport", 1) + "-- go.mod --\nmodule hello\n-- internal/util/util.go --\npackage util\n",
		"Required":      strings.Replace(hello, "import", "import _ \"example.com/x/v2/y/z\"\nimport", 1) + moduleFile + "require example.com/x/v2 v2.0.1\nreplace example.com/x/v2 => example.com/y/v2 v2.0.2\n-- go.sum --\n",
		"RequiredBelow": strings.Replace(hello, "import", "import _ \"example.com/hello/sub/y\"\nimport", 1) + moduleFile + "require example.com/hello/sub v0.1.0\n",
		"Toolchain":     hello + moduleFile + "toolchain go1.99.0\n",
		"Vendored":      hello + moduleFile + "require example.com/x v1.0.0\n-- vendor/modules.txt --\n# example.com/x v1.0.0\n## explicit\n-- vendor/example.com/x/x.go --\n//line x:1\npackage main; syntax error\n-- vendor/example.com/x/x.s --\nTEXT\n",
		"Tests":         hello + "-- a_test.go --\npackage handlers_test\nfunc Handler() {}\n-- b_test.go --\nno Go at all\n",
		"Ignored":       hello + "-- testdata/a.go --\nx\n-- _a.go --\nx\n-- .a/a.go --\nx\n-- _b/b.s --\nx\n",
		"Documentation": hello + "-- doc.go --\npackage documentation\n",
		"Assets":        hello + "-- static/prog.c --\nint main;\n-- static/x.h --\n",
		"OtherSystem":   hello + "-- a_windows.go --\npackage handlers\nimport \"C\"\nfunc Handler(){}\n-- b.go --\n//go:build darwin\n\npackage main\n-- c.go --\n// +build ignore\n\npackage main\n",
		"NeverBuilt":    hello + "-- gen.go --\n//go:build ignore\n\npackage main\n\nfunc main() { {{ .Body }} }\n-- x_windows.go --\nnot Go\n",
		"EachMachine":   hello + "-- a_amd64.go --\npackage handlers\nfunc f() {}\n-- a_linux_arm64.go --\npackage handlers\nfunc f() {}\n",
		"Main":          hello + moduleFile + "-- cmd/x/main.go --\npackage main\nfunc main() {}\nfunc init() {}\nfunc init() {}\n",
		"OtherPackage":  hello + moduleFile + "-- util/a.go --\npackage util\nfunc Start() {}\nvar Handler int\n",
		"Embed": hello + `-- a.go --
package handlers
import _ "embed"
//go:embed index.html
//go:embed static all:hidden "with space.txt" ` + "`static/*.css`" + `
//go:embed static/[ab].css all:*
var x string
-- index.html --
-- static/a.css --
-- hidden/.x --
-- with space.txt --
`,
		"EmbedBelow": hello + moduleFile + "-- web/web.go --\npackage web\n//go:embed tmpl/*/*.html\nvar x string\n-- web/tmpl/a/b.html --\n",
	}
	for name, src := range cases {
		t.Run(name, func(t *testing.T) {
			if _, err := handler.Parse("handler.go", []byte(src)); err != nil {
				t.Errorf("Parse: %v", err)
			}
		})
	}
}

// TestParseFindsTheHandler checks that the handler's package is at the top, or else the only one of
// the module that declares a handler.
func TestParseFindsTheHandler(t *testing.T) {
	const util, start = "-- util/a.go --\npackage util\n", "func Start(context.Context) error { return nil }\n"
	below := "-- web/api/a.go --\n" + strings.Replace(hello, "import", "import \"context\"\nimport", 1) + start
	importing := strings.Replace(below, "import", "import _ \"example.com/hello/util\"\nimport _ \"example.com/hello\"\nimport", 1)
	cases := map[string]struct{ src, dir, hooks string }{
		"File":        {hello, ".", "[]"},
		"Top":         {"-- a.go --\n" + hello + moduleFile + below, ".", "[]"},
		"TopAndHook":  {"-- a.go --\n" + strings.Replace(hello, "import", "import \"context\"\nimport", 1) + start + moduleFile + below, ".", "[Start]"},
		"Below":       {moduleFile + below, "web/api", "[Start]"},
		"BelowMain":   {"-- main.go --\npackage main\nfunc main() {}\n" + moduleFile + below, "web/api", "[Start]"},
		"BelowNoTop":  {"-- a.go --\npackage p\n" + moduleFile + util + importing, "web/api", "[Start]"},
		"OtherMain":   {moduleFile + below + "-- cmd/a.go --\n" + strings.Replace(hello, "package handlers", "package main", 1), "web/api", "[Start]"},
		"OtherKind":   {moduleFile + below + "-- a/a.go --\npackage a\nfunc Handler() {}\n", "web/api", "[Start]"},
		"Served":      {moduleFile + below + "-- main.go --\npackage main\nimport _ \"example.com/hello/web/api\"\nfunc main() {}\n", "web/api", "[Start]"},
		"LikeNetHTTP": {moduleFile + strings.Replace(below, "web/api", "net/http", 1), "net/http", "[Start]"},
		"Faked":       {moduleFile + below + "-- fake/a.go --\n" + hello + "-- web/api/a_test.go --\npackage handlers_test\nimport _ \"example.com/hello/fake\"\nimport _ \"example.com/hello/web/api\"\n", "web/api", "[Start]"},
		"Tested":      {moduleFile + below + "-- e2e/a_test.go --\npackage e2e\nimport _ \"example.com/hello/web/api\"\n", "web/api", "[Start]"},
		"TypeAtTop":   {moduleFile + below + "-- a.go --\npackage p\ntype Handler struct{}\n", "web/api", "[Start]"},
		"OwnHandlers": {moduleFile + importing + "-- util/a.go --\n" + hello + "-- a.go --\npackage p\n", "web/api", "[Start]"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h, err := handler.Parse("handler.go", []byte(c.src))
			if err != nil {
				t.Fatal(err)
			}
			if hooks := fmt.Sprint(h.Hooks); h.Dir != c.dir || hooks != c.hooks {
				t.Errorf("got %s %s, want %s %s", h.Dir, hooks, c.dir, c.hooks)
			}
		})
	}
}

func TestParseDescribesArchives(t *testing.T) {
	src := `-- b.go --
package p

import (
	"context"
	"net/http"

	"example.com/hello/util"
)

func Handler(http.ResponseWriter, *http.Request) { util.F() }
func Stop(context.Context) error                 { return nil }
-- go.mod --
module example.com/hello

require example.com/x v1.0.0
-- util/util.go --
package util

import _ "example.com/x"
-- util/util_test.go --
package util

import "testing"
-- util/util_windows.go --
package util

import "syscall"
-- vendor/modules.txt --
# example.com/x v1.0.0
## explicit
`
	got, err := handler.Parse("handler.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.Parse("go.mod", []byte("module example.com/hello\n\nrequire example.com/x v1.0.0\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &handler.Source{
		Package: "p",
		Dir:     ".",
		Files:   handler.Split("handler.go", []byte(src)),
		Imports: []handler.Import{
			{File: "b.go", Path: "context", Line: 4, Column: 2},
			{File: "b.go", Path: "net/http", Line: 5, Column: 2},
			{File: "b.go", Path: "example.com/hello/util", Line: 7, Column: 2},
			{File: "util/util.go", Path: "example.com/x", Line: 3, Column: 10},
		},
		Hooks: []string{"Stop"},
		GoMod: mod,
	}
	if !got.Vendored() {
		t.Error("the modules in vendor are not found")
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(modfile.Line{}, modfile.Require{})); diff != "" {
		t.Errorf("Parse: -want +got\n%s", diff)
	}
}

func TestParseRejectsArchives(t *testing.T) {
	many := "-- a.go --\n" + hello
	for i := range handler.MaxFiles {
		many += fmt.Sprintf("-- %d --\n", i)
	}
	deep := hello
	for i := range 9 {
		deep += fmt.Sprintf("-- %d/%sx --\n", i, strings.Repeat("a/", 120))
	}
	cases := map[string]struct{ src, want string }{
		"TooManyDirs":    {deep, "8/" + strings.Repeat("a/", 120) + "x:1:1: the archive has more than 1000 directories; use fewer"},
		"Outside":        {hello + "-- ../a --\n-- a/../../b --\n", "../a:1:1: the name is outside of the archive; write it without ..\na/../../b:1:1: the name is outside of the archive; write it without .."},
		"Absolute":       {hello + "-- /etc/passwd --\n", "/etc/passwd:1:1: the name must be relative to the archive; remove the leading /"},
		"Backslash":      {hello + "-- a\\b --\n", `a\b:1:1: the name has a \, write / between directories`},
		"Unclean":        {hello + "-- a//b --\n-- ./c --\n-- d/ --\n", "a//b:1:1: the name is not clean; write a/b\n./c:1:1: the name is not clean; write c\nd/:1:1: the name is not clean; write d"},
		"Characters":     {hello + "-- a:b --\n-- a?\x1b --\n-- aux.go --\npackage handlers\n", "a:b:1:1: the name is not portable: invalid char ':'; use another one\na??:1:1: the name is not portable: invalid char '?'; use another one\naux.go:1:1: the name is not portable: \"aux\" disallowed as path element component on Windows; use another one"},
		"LongName":       {hello + "-- " + strings.Repeat("a/", 128) + "b --\n", strings.Repeat("a/", 128) + "b:1:1: the name has 257 bytes, at most 255 are allowed"},
		"EncodedTwice":   {hello + "-- base64:base64:a --\nQUE=\n", "base64:a:1:1: the name starts with base64: twice; write it once"},
		"EncodedGo":      {hello + "-- base64:a.go --\nQUE=\n", "base64:a.go:1:1: a.go must be text; write it without base64:"},
		"NotBase64":      {hello + "-- base64:a --\n!\n", "base64:a:1:1: a is not valid base64; encode it with: base64 FILE (illegal base64 data at input byte 0)"},
		"Dash":           {hello + "-- -a.go --\npackage handlers\n", "-a.go:1:1: the go command rejects the name; start the names of files and directories with a letter"},
		"Twice":          {hello + "-- handler.go --\n" + hello, "handler.go:1:1: handler.go is in the archive twice; remove one"},
		"Case":           {hello + "-- a --\n-- A --\n", "A:1:1: the name differs from a only in case; rename one"},
		"FileAndDir":     {hello + "-- a/b/c --\n-- a --\n", "a/b/c:1:1: a is both a file and a directory; rename one"},
		"TooMany":        {many, "999:1:1: the archive has 1001 files, at most 1000 are allowed"},
		"Assembly":       {hello + "-- a.s --\n-- a.syso --\n-- a.c --\n", "a.s:1:1: cannot build a.s: functions consist of Go files only; remove the file or move it out of the directory of the package\na.syso:1:1: cannot build a.syso: functions consist of Go files only; remove the file or move it out of the directory of the package\na.c:1:1: cannot build a.c: functions consist of Go files only; remove the file or move it out of the directory of the package"},
		"Workspace":      {hello + "-- go.work --\n", "go.work:1:1: a function is one module, not a workspace; remove go.work"},
		"NestedMod":      {hello + "-- a/go.mod --\n", "a/go.mod:1:1: a function is one module; remove this go.mod"},
		"NUL":            {hello + "-- a --\nb\x00\n", "a:1:2: the source contains a NUL character; remove it"},
		"NoGo":           {"-- a --\n-- b --\n", "a:1:1: no Go file at the root is built; add handler.go with func Handler(http.ResponseWriter, *http.Request)"},
		"OnlyBelow":      {"-- src/a.go --\n" + hello, "src/a.go:1:9: a package in a subdirectory needs a go.mod; add one with the line: module example.com/function\nsrc/a.go:5:1: Handler must be in the package at the root of the archive; move it there"},
		"TwoBelow":       {moduleFile + "-- a/a.go --\n" + hello + "-- b/b.go --\n" + hello, "b/b.go:5:1: Handler is also in a; pass the directory of one package, or leave out the other"},
		"TopSignature":   {"-- a.go --\npackage p\nfunc Handler() {}\n" + moduleFile + "-- a/a.go --\n" + hello, "a.go:2:1: wrong signature for Handler, want: func Handler(http.ResponseWriter, *http.Request)"},
		"TopVariable":    {"-- a.go --\npackage p\nvar Handler = 1\n" + moduleFile + "-- a/a.go --\n" + hello, "a.go:2:5: Handler is declared with var, want a function: func Handler(http.ResponseWriter, *http.Request)"},
		"TopSyntax":      {"-- a.go --\npackage p\nfunc {\n" + moduleFile + "-- a/a.go --\npackage a\nfunc Handler() {}\n", "a.go:2:6: expected 'IDENT', found '{'"},
		"BelowSignature": {moduleFile + "-- a/a.go --\npackage a\nfunc Handler() {}\n", "a/a.go:2:1: wrong signature for Handler, want: func Handler(http.ResponseWriter, *http.Request)"},
		"BelowMain":      {moduleFile + "-- a/a.go --\n" + strings.Replace(hello, "package handlers", "package main", 1), "a/a.go:1:9: package main cannot be imported; use another name: package handlers"},
		"BelowImported":  {moduleFile + "-- a.go --\npackage p\nimport _ \"example.com/hello/a\"\n-- a/a.go --\n" + hello, "a/a.go:5:1: Handler must be in the package at the root of the archive, or in one that no other package imports; move it there"},
		"NoneBelow":      {"-- a/a.go --\npackage a\n" + moduleFile, "a/a.go:1:1: no package declares Handler; add: func Handler(http.ResponseWriter, *http.Request)"},
		"OnlyTests":      {"-- a_test.go --\n" + hello, "a_test.go:1:1: no Go file at the root is built; add handler.go with func Handler(http.ResponseWriter, *http.Request)"},
		"NotBuilt":       {"-- a.go --\npackage p\n-- b_windows.go --\n" + hello, "b_windows.go:5:1: Handler is in a file that is excluded for some platforms by its name or a build constraint; functions are built for linux, on amd64 and arm64"},
		"OneMachine":     {"-- a.go --\npackage handlers\n-- b_amd64.go --\n" + hello, "b_amd64.go:5:1: Handler is in a file that is excluded for some platforms by its name or a build constraint; functions are built for linux, on amd64 and arm64"},
		"OneHook":        {hello + "-- b_arm64.go --\npackage handlers\nimport \"context\"\nfunc Stop(context.Context) error { return nil }\n", "b_arm64.go:3:1: Stop is in a file that is excluded for some platforms by its name or a build constraint; functions are built for linux, on amd64 and arm64"},
		"Packages":       {hello + "-- b.go --\npackage other\n", "b.go:1:9: package other differs from the package of handler.go:1:9, handlers; use one name per directory"},
		"PackageOfTests": {hello + "-- a_test.go --\npackage handlers\n-- b_test.go --\npackage handlers_test\n-- c_test.go --\n// Mine.\npackage third\n-- d_windows_test.go --\npackage fourth\n", "c_test.go:2:9: package third does not match the package of handler.go:1:9, handlers; write package handlers_test, or package handlers"},
		"NoModule":       {hello + "-- util/a.go --\npackage util\n-- util/b.go --\npackage util\n", "util/a.go:1:9: a package in a subdirectory needs a go.mod; add one with the line: module example.com/function"},
		"Syntax":         {hello + moduleFile + "-- util/a.go --\npackage util\n\nfunc {\n-- b.go --\npackage handlers; import \"C\"\n", "util/a.go:3:6: expected 'IDENT', found '{'\nb.go:1:26: cannot import \"C\": functions are built without cgo"},
		"EmptyGo":        {hello + "-- b.go --\n", "b.go:1:1: expected 'package', found 'EOF'"},
		"NoPackage":      {strings.Replace(hello, "import", "import \"example.com/hello/util\"\nimport", 1) + moduleFile + "-- util/x_test.go --\n", `handler.go:3:8: cannot import "example.com/hello/util": the source contains no package in util`},
		"OtherModule":    {strings.Replace(hello, "import", "import \"example.com/other/util\"\nimport", 1) + moduleFile + "-- util/util.go --\npackage util\n", `handler.go:3:8: cannot import "example.com/other/util": go.mod requires no module that contains it; add one with: builder tidy FILE`},
		"NoModuleNamed":  {strings.Replace(hello, "import", "import \"example.com/hello/util\"\nimport", 1) + "-- util/util.go --\npackage util\n", `handler.go:3:8: cannot import "example.com/hello/util": without a go.mod only the standard library can be imported; add one with: builder tidy FILE` + "\nutil/util.go:1:9: a package in a subdirectory needs a go.mod; add one with the line: module example.com/function"},
		"NotRequired":    {strings.Replace(hello, "import", "import \"example.com/x\"\nimport", 1) + moduleFile, `handler.go:3:8: cannot import "example.com/x": go.mod requires no module that contains it; add one with: builder tidy FILE`},
		"Internal":       {strings.Replace(hello, "import", "import \"internal/abi\"\nimport", 1) + moduleFile, `handler.go:3:8: cannot import "internal/abi": it is internal to the Go distribution`},
		"Embed":          {hello + "//go:embed ../c b/* .\n//go:embed \"a\n//go:embed all:d all:../d [\n-- a --\n", "handler.go:8:12: cannot embed ../c: the path must be inside the directory of the file, without . and ..\nhandler.go:8:21: cannot embed .: the path must be inside the directory of the file, without . and ..\nhandler.go:9:1: cannot parse the pattern of //go:embed: invalid quoted string in //go:embed: \"a\nhandler.go:10:18: cannot embed all:../d: the path must be inside the directory of the file, without . and ..\nhandler.go:10:27: cannot embed [: the path must be inside the directory of the file, without . and .."},
		"Directives":     {hello + "-- b.go --\npackage handlers\n//line a.go:1\n//go:linkname a b\n", "b.go:2:1: line directives are not allowed, because they change the positions of errors; remove this line\nb.go:3:1: //go:linkname is not allowed; remove it"},
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

func TestParseRejectsModules(t *testing.T) {
	cases := map[string]struct{ mod, want string }{
		"Empty":       {"", "go.mod:1:1: go.mod has no module line; add: module example.com/function"},
		"Syntax":      {"module x.y/z\n\nrequire (\n", "go.mod:4:1: syntax error (unterminated block started at go.mod:3:1)"},
		"Conflict":    {"module x.y/z\n<<<<<<< HEAD\nrequire a.b/c v1.0.0\n=======\n>>>>>>> x\n", "go.mod:2:1: unknown directive: <<<<<<<\ngo.mod:4:1: unknown directive: =======\ngo.mod:5:1: unknown directive: >>>>>>>"},
		"Major":       {"module x.y/z\nrequire a.b/c v2.0.0\n", `go.mod:2:1: require a.b/c: version "v2.0.0" invalid: should be v0 or v1, not v2; the path of such a version ends with /v2`},
		"Malformed":   {"module x.y/z\nrequire gopkg.in/yaml v3.0.1\n", "go.mod:2:1: invalid module path: require gopkg.in/yaml v3.0.1"},
		"Unknown":     {"module x.y/z\nrequires a.b/c v1.0.0\n", "go.mod:2:1: unknown directive: requires"},
		"Version":     {"module x.y/z\nrequire (\n\ta.b/c latest\n)\n", `go.mod:3:2: require a.b/c: version "latest" invalid: must be of the form v1.2.3; to select a version, remove the line and run: builder tidy FILE`},
		"Go":          {"module x.y/z\ngo 1.28\n", "go.mod:2:1: go 1.28 is newer than the Go version that compiles functions, go1.27.4; write go 1.27.0 or older"},
		"GoPatch":     {"module x.y/z\ngo 1.27.5\n", "go.mod:2:1: go 1.27.5 is newer than the Go version that compiles functions, go1.27.4; write go 1.27.0 or older"},
		"GoNumber":    {"module x.y/z\ngo one\n", "go.mod:2:1: invalid go version 'one': must match format 1.23.0"},
		"Replace":     {"module x.y/z\nreplace a.b/c => ../c\nreplace a.b/d v1.0.0 => /etc\n", "go.mod:2:1: cannot replace a.b/c by a directory outside of the Function; copy it with go mod vendor, or replace it by a version\ngo.mod:3:1: cannot replace a.b/d by a directory outside of the Function; copy it with go mod vendor, or replace it by a version"},
		"ReplaceOurs": {"module x.y/z\nreplace goless.io/runtime => a.b/c v1.0.0\n", "go.mod:2:1: cannot replace goless.io/runtime: it is part of the generated program; remove the line"},
		"ReplaceSelf": {"module x.y/z\nreplace x.y/z => a.b/c v1.0.0\n", "go.mod:2:1: cannot replace x.y/z: it is the module of the function; remove the line"},
		"Excluded":    {"module x.y/z\nexclude a.b/c v1.0.0\nexclude a.b/c v1.1.0\nrequire a.b/c v1.1.0\n", "go.mod:3:1: cannot exclude a.b/c: the generated program needs it; remove the line"},
		"Exclude":     {"module x.y/z\nexclude x.y/z v0.0.0\nexclude goless.io/runtime v0.0.0\n", "go.mod:2:1: cannot exclude x.y/z: the generated program needs it; remove the line\ngo.mod:3:1: cannot exclude goless.io/runtime: the generated program needs it; remove the line"},
		"Ours":        {"module goless.io/function\n", "go.mod:1:1: module path goless.io/function is that of the generated program; use another one such as example.com/function"},
		"Standard":    {"module net/http\n", "go.mod:1:1: module path net/http is reserved for Go; use another one such as example.com/function"},
		"Main":        {"// mine\nmodule main\n", "go.mod:2:1: module path main is reserved for Go; use another one such as example.com/function"},
		"Internal":    {"module a.b/internal/c\n", "go.mod:1:1: module path a.b/internal/c is reserved for Go; use another one such as example.com/function"},
		"Path":        {"module a.b/~c d\n", "go.mod:1:1: usage: module module/path"},
		"FirstMajor":  {"module example.com/v1\n", "go.mod:1:1: module path example.com/v1 ends with a version other than /v2 or later; use another one such as example.com/function"},
		"PathQuoted":  {"module \"a b\"\n", "go.mod:1:1: module path a b is invalid: invalid char ' '; use another one such as example.com/function"},
		"PathLong":    {"module a" + strings.Repeat("/b", 128) + "\n", "go.mod:1:1: module path has 257 bytes, at most 255 are allowed"},
		"Require":     {"module a.b/c\nrequire hello v1.0.0\n", "go.mod:2:1: cannot require hello: invalid path: missing dot in first path element"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := handler.Parse("h.go", []byte(hello+"-- go.mod --\n"+c.mod))
			if err == nil {
				t.Fatal("Parse accepts the source")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("Parse: -want +got\n%s", diff)
			}
		})
	}
}
