package hostile

import (
	"fmt"
	"strings"

	"goless.io/builder/handler"
)

const (
	head = "package p\n\nimport \"net/http\"\n\n"
	tail = "\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"
)

// large returns cases that are close to the maximum size of a source. They are generated because
// such files are not readable.
func large() []Case {
	return []Case{
		{Name: "large-ifs", Reason: "Built", Source: fill(head+"func f(x int) int {\n", "\treturn x\n}\n"+tail, func(i int) string {
			return fmt.Sprintf("\tif x == %d {\n\t\tx++\n\t}\n", i)
		})},
		{Name: "large-map", Reason: "Built", Source: fill(head+"var m = map[int]func() int{\n", "}\n"+tail, func(i int) string {
			return fmt.Sprintf("\t%d: func() int { return %[1]d },\n", i)
		})},
		{Name: "large-nesting", ExitCode: 13, Reason: "InvalidSource", Says: "handler.go:5:", Source: fill(head+"var x = ", "1\n"+tail, func(int) string { return "(" })},
		{Name: "large-errors", ExitCode: 13, Reason: "InvalidSource", Says: "handler.go:", Source: fill(head, tail, func(int) string { return "}\n" })},
		{Name: "large-undefined", ExitCode: 10, Reason: "CompileFailed", Says: "handler.go:6:6: undefined: x0", Source: fill(head+"func f() {\n", "}\n"+tail, func(i int) string {
			return fmt.Sprintf("\t_ = x%d\n", i)
		})},
		{Name: "large-archive", ExitCode: 13, Reason: "InvalidSource", Source: fill("-- handler.go --\n"+head+tail, "", func(i int) string {
			return fmt.Sprintf("-- f%d.go --\npackage p\n", i)
		})},
		{Name: "large-packages", ExitCode: 14, Reason: "CompileFailed", Says: "the program is too large: its build uses more than 896 MiB on disk", Source: packages(110, "var X = [60 << 20]byte{60<<20 - 1: 1}\n")},
		{Name: "large-variable", ExitCode: 10, Reason: "CompileFailed", Says: "handler.go:", Source: []byte(head + "var _ = func() byte { return x[1] }\n\nvar x [3 << 30]byte\n" + tail)},
		{Name: "large-text", ExitCode: 13, Reason: "InvalidSource", Says: "handler.go:1:", Source: []byte(strings.Repeat("\x00", handler.MaxCharacters))},
	}
}

// packages returns an archive whose root package imports count packages, each with the given
// declarations.
func packages(count int, declarations string) []byte {
	var imports, files strings.Builder
	for i := range count {
		fmt.Fprintf(&imports, "import _ \"example.com/m/p%d\"\n", i)
		fmt.Fprintf(&files, "-- p%d/p.go --\npackage p\n\n%s", i, declarations)
	}
	return []byte("-- go.mod --\nmodule example.com/m\n\ngo 1.26\n-- handler.go --\n" + head + imports.String() + tail + files.String())
}

// fill returns begin and end with as many bodies between them as fit into a source.
func fill(begin, end string, body func(i int) string) []byte {
	var b strings.Builder
	b.WriteString(begin)
	for i := 0; ; i++ {
		next := body(i)
		if b.Len()+len(next)+len(end) > handler.MaxCharacters {
			b.WriteString(end)
			return []byte(b.String())
		}
		b.WriteString(next)
	}
}
