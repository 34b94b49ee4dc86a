package handler_test

import (
	"runtime"
	"strings"
	"testing"

	"goless.io/builder/handler"
)

// TestLongIsNotDeep checks that long sources without deep nesting are accepted.
func TestLongIsNotDeep(t *testing.T) {
	const many = 5000
	for name, body := range map[string]string{
		"sum":         "var x = \"a\"" + strings.Repeat(" +\n\t\"a\"", many),
		"signs":       "var x = 1" + strings.Repeat(" - -1", 900),
		"parentheses": "var x = 1" + strings.Repeat(" + (1)", many),
		"pointers":    "func f(" + strings.Repeat("a ****int, ", many) + "b int) {}",
		"slices":      "var x = [][]int{" + strings.Repeat("{1}, ", many) + "}",
		"keys":        "var x = map[int][]*int{" + strings.Repeat("0: {},\n", many) + "}",
		"calls":       "var x = f" + strings.Repeat("().g(1)", many),
		"functions":   "var x = []func() int{\n" + strings.Repeat("func() int { return 1 },\n", many) + "}",
		"cases":       "func f(x int) { switch x {\n" + strings.Repeat("case 1:\n", many) + "} }",
		"conditions":  "func f(x bool) {\n" + strings.Repeat("if !x { return }\nif x { return } else { f(!x) }\n", 900) + "}",
		"branches":    "func f(x bool) {\nif x {\n}" + strings.Repeat(" else if !x {\n}", 450) + "\n}",
		"depth":       "var x = " + strings.Repeat("(", 900) + "1" + strings.Repeat(")", 900),
		"one line":    "var x = []func(){" + strings.Repeat("func() {}, ", 200) + "}",
		"text":        "/* " + strings.Repeat("((( func ", many) + "*/ var x = `" + strings.Repeat("{[(", many) + "`",
	} {
		if _, err := handler.Parse(handler.Filename, []byte(hello+body+"\n")); err != nil {
			t.Errorf("%s: %.200v", name, err)
		}
	}
}

// TestDeepIsRefused checks that deeply nested sources are rejected and use little memory.
func TestDeepIsRefused(t *testing.T) {
	const many = 24000
	for name, body := range map[string]string{
		"parentheses": "var x = " + strings.Repeat("(", many),
		"archives":    "var x = " + strings.Repeat("(", many) + "\n-- a --\n",
		"literals":    "var x = " + strings.Repeat("[]int{", many),
		"blocks":      "func f() " + strings.Repeat("{", many),
		"lines":       "func f() " + strings.Repeat("{\n", many),
		"signs":       "var x = " + strings.Repeat("- ", many) + "1",
		"pointers":    "var x " + strings.Repeat("*", many) + "int",
		"channels":    "var x " + strings.Repeat("chan ", many) + "int",
		"arrows":      "var x = " + strings.Repeat("<-", many) + "y",
		"arrays":      "var x " + strings.Repeat("[]", many) + "int",
		"maps":        "var x " + strings.Repeat("map[int]", many) + "int",
		"results":     "var x " + strings.Repeat("func() ", many) + "int",
		"labels":      "func f() { " + strings.Repeat("a:\n", many) + "}",
		"branches":    "func f() { if a {}" + strings.Repeat(" else if a {}", many/3) + "}",
		"headers":     "func f() { if a {}" + strings.Repeat(" else if;a{\n}", many*2/3) + "}",
		"functions":   "func f() { if a {}" + strings.Repeat(" else if func(){};a{\n}", many/3) + "}",
		"wrong":       "var x = " + strings.Repeat("func ;", many),
		"wrong loops": "func f() { " + strings.Repeat("for ;", many),
	} {
		var before, after runtime.MemStats
		var err error
		done := make(chan struct{})
		go func() { // a separate stack
			defer close(done)
			runtime.ReadMemStats(&before)
			_, err = handler.Parse(handler.Filename, []byte(hello+body))
			runtime.ReadMemStats(&after)
		}()
		<-done
		if err == nil || !strings.Contains(err.Error(), "deeper than 1000 levels") && !strings.Contains(err.Error(), "more than 250 keywords") {
			t.Errorf("%s: %.200v", name, err)
		}
		if grown := int64(after.StackInuse) - int64(before.StackInuse); grown > 8<<20 {
			t.Errorf("%s: %d MiB of stack", name, grown>>20)
		}
	}
}
