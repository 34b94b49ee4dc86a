package handler_test

import (
	"fmt"
	"strings"
	"testing"

	"goless.io/builder/handler"
)

// BenchmarkParse measures the time that the operator needs for a source: at most 5 ms for 10 KB,
// and 150 ms for the largest source, even if it is hostile.
func BenchmarkParse(b *testing.B) {
	const plain = "func f%d(a int) string { return fmt.Sprint(a + 1) }\n"
	b.Run("10k", func(b *testing.B) { benchmark(b, hello+numbered(plain, 10<<10-len(hello))) })
	b.Run("max", func(b *testing.B) { benchmark(b, hello+numbered(plain, handler.MaxCharacters-len(hello))) })
	for name, src := range hostile() {
		b.Run("hostile-"+name, func(b *testing.B) { benchmark(b, src) })
	}
}

func benchmark(b *testing.B, src string) {
	b.ReportAllocs()
	b.SetBytes(int64(len(src)))
	for b.Loop() {
		_, _ = handler.Parse("handler.go", []byte(src)) // most sources are rejected
	}
}

// numbered returns as many numbered instances of format as fit into size bytes.
func numbered(format string, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()[:b.Len()-len(fmt.Sprintf(format, b.Len()))-1]
}

// hostile returns sources of nearly the maximum size that are expensive to parse.
func hostile() map[string]string {
	const size = handler.MaxCharacters - 300
	const archive = "-- a.go --\n" + hello
	const mod = "-- go.mod --\nmodule example.com/hello\n"
	fill := func(unit string) string { return strings.Repeat(unit, size/len(unit)) }
	return map[string]string{
		"parentheses":     hello + fill("("),
		"nesting":         hello + "var x = " + fill("[]int{"),
		"pointers":        "package p\nimport \"net/http\"\nfunc Handler(w " + fill("*") + "http.ResponseWriter, r *http.Request) {}\n",
		"names":           hello + "var " + fill("a,") + "b int",
		"letters":         hello + "var " + fill("\U0001D400,") + "b int",
		"parameters":      "package p\nfunc Handler(" + fill("a,") + "b int) {}",
		"functions":       "package p\n" + fill("func a(){}\n"),
		"handlers":        "package p\nimport . \"net/http\"\n" + fill("func Handler(ResponseWriter,*Request){}\n"),
		"methods":         hello + "type T int\n" + fill("func(T)a(){}\n"),
		"characters":      hello + "//" + fill("\U0001F600"),
		"strings":         hello + "var x = `" + fill("\U0001F600") + "`",
		"imports":         "package p\n" + fill("import \"a\"\n"),
		"imports-many":    "package p\nimport (\n" + numbered("\"%x\"\n", size) + ")\n",
		"imports-http":    "package p\nimport (\n" + numbered("a%x \"net/http\"\n", size) + ")\n",
		"imports-foreign": archive + "import (\n" + numbered("_ \"a.b/%x\"\n", size) + ")\n" + mod,
		"import-long":     archive + "import \"a" + fill("/a") + "\"\n" + mod + "require a.b/c v1.0.0\n",
		"linknames":       fill("//go:linkname a\n") + hello,
		"directives":      hello + fill("//line a:1\n"),
		"constraint":      "//go:build " + fill("!(a||") + "\n\n" + hello,
		"constraints":     fill("// +build linux\n") + "\n" + hello,
		"marker-last":     hello + fill("func a(){}\n") + "-- a --\n",
		"markers":         fill("-- a --\n"),
		"files":           archive + numbered("-- %d --\n", size),
		"go-files":        archive + goFiles(900),
		"directories":     archive + mod + numbered("-- a%d/b/c/d/e/f/g/h/i/j --\n", 30000),
		"markers-broken":  archive + fill("-- a\n"),
		"names-deep":      archive + "-- " + fill("a/") + "b --\n",
		"embed-names":     archive + fill("//go:embed b\n"),
		"embed-globs":     archive + strings.Repeat("//go:embed *a*a*a*a*b x/*\n", 8000) + numbered("-- aaaaaaaaaaaaaaaaaaaaaaaa%d --\n", 30000),
		"embed-nested":    archive + mod + nested(100, 700),
		"embed-long":      archive + "//go:embed " + fill("*a") + "b\n-- " + strings.Repeat("a", 200) + " --\n",
		"mod-requires":    archive + mod + numbered("require a.b/c%d v1.0.0\n", size),
		"mod-block":       archive + mod + "require (\n" + numbered("\ta.b/c%d v1.0.0\n", size) + ")\n",
		"mod-errors":      archive + mod + fill("requires a\n"),
		"mod-comments":    archive + mod + fill("// a\n"),
		"mod-brackets":    archive + mod + fill("retract [\n"),
	}
}

func goFiles(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "-- f%d.go --\n//go:build linux\n\npackage handlers\n\nimport \"context\"\n\nfunc f%d(context.Context) {}\n"+strings.Repeat("\nvar _ = 1\n", 12), i, i)
	}
	return b.String()
}

// nested returns a chain of packages with //go:embed, and files below all of them.
func nested(packages, files int) string {
	var b strings.Builder
	for i := range packages {
		fmt.Fprintf(&b, "-- %sx.go --\npackage x\n//go:embed a/*/*/*/*/*/*/b a\nvar x string\n", strings.Repeat("a/", i+1))
	}
	for i := range files {
		fmt.Fprintf(&b, "-- %sb%d --\n", strings.Repeat("a/", packages+10), i)
	}
	return b.String()
}
