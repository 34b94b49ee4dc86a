package hostile

import (
	"fmt"
	"strings"
)

// maxSource is the largest source of a Function, in bytes of ASCII.
const maxSource = 245760

const (
	head    = "package p\n\nimport \"net/http\"\n\n"
	handler = "\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"
)

// large returns the cases that are as large as a source may be, which nobody
// wants to read.
func large() []Case {
	return []Case{
		{Name: "large-ifs", Reason: "Built", Source: fill(head+"func f(x int) int {\n", "\treturn x\n}\n"+handler, func(i int) string {
			return fmt.Sprintf("\tif x == %d {\n\t\tx++\n\t}\n", i)
		})},
		{Name: "large-map", Reason: "Built", Source: fill(head+"var m = map[int]func() int{\n", "}\n"+handler, func(i int) string {
			return fmt.Sprintf("\t%d: func() int { return %[1]d },\n", i)
		})},
		{Name: "large-nesting", ExitCode: 13, Reason: "InvalidSource", Says: "handler.go:5:", Source: fill(head+"var x = ", "1\n"+handler, func(int) string { return "(" })},
		{Name: "large-errors", ExitCode: 13, Reason: "InvalidSource", Says: "handler.go:", Source: fill(head, handler, func(int) string { return "}\n" })},
		{Name: "large-undefined", ExitCode: 10, Reason: "CompileFailed", Says: "handler.go:6:6: undefined: x0", Source: fill(head+"func f() {\n", "}\n"+handler, func(i int) string {
			return fmt.Sprintf("\t_ = x%d\n", i)
		})},
		{Name: "large-archive", ExitCode: 13, Reason: "InvalidSource", Source: fill("-- handler.go --\n"+head+handler, "", func(i int) string {
			return fmt.Sprintf("-- f%d.go --\npackage p\n", i)
		})},
		{Name: "large-text", ExitCode: 13, Reason: "InvalidSource", Says: "handler.go:1:", Source: []byte(strings.Repeat("\x00", maxSource))},
	}
}

// fill puts as many bodies between begin and end as there is room for.
func fill(begin, end string, body func(i int) string) []byte {
	var b strings.Builder
	b.WriteString(begin)
	for i := 0; ; i++ {
		next := body(i)
		if b.Len()+len(next)+len(end) > maxSource {
			b.WriteString(end)
			return []byte(b.String())
		}
		b.WriteString(next)
	}
}
