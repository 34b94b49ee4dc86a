package builder_test

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"goless.io/builder"
	"goless.io/builder/handler"
)

// mutant is a source with a mistake in one line.
type mutant struct {
	kind string
	src  string
	file string // in src
	line int    // in file
}

// mistake inserts an error at one of its sites in a source.
type mistake struct {
	kind string

	// at returns the change that makes the mistake at n. It returns false if that is not possible.
	at func(n ast.Node) (change, bool)
}

// change replaces the source between two positions with text, in which $ is the replaced source.
// The compiler reports the mistake in the line of from, or of seen if that is valid.
type change struct {
	from, to token.Pos
	text     string
	seen     token.Pos
}

// site returns a mistake that can be made at nodes of type N.
func site[N ast.Node](kind string, at func(N) (change, bool)) mistake {
	return mistake{kind, func(n ast.Node) (change, bool) {
		node, ok := n.(N)
		if !ok {
			return change{}, false
		}
		return at(node)
	}}
}

// atStatement inserts text before the first statement of a block.
func atStatement(kind, text string) mistake {
	return site(kind, func(block *ast.BlockStmt) (change, bool) {
		if len(block.List) == 0 {
			return change{}, false
		}
		at := block.List[0].Pos()
		switch block.List[0].(type) {
		case *ast.CaseClause, *ast.CommClause:
			return change{}, false
		}
		return change{from: at, to: at, text: text + "\n"}, true
	})
}

// atFunction inserts text before a function.
func atFunction(kind, text string) mistake {
	return site(kind, func(fn *ast.FuncDecl) (change, bool) {
		return change{from: fn.Pos(), to: fn.Pos(), text: text + "\n"}, fn.Doc == nil
	})
}

// atImport inserts an import before the existing ones.
func atImport(kind, name, path string) mistake {
	return site(kind, func(d *ast.GenDecl) (change, bool) {
		return change{from: d.Pos(), to: d.Pos(), text: fmt.Sprintf("import %s %q\n", name, path)}, d.Tok == token.IMPORT
	})
}

// forCompiler are mistakes that only a compiler finds.
var forCompiler = []mistake{
	atStatement("unknown function", "nobodyHasDeclaredThis()"),
	atStatement("unused variable", "var unusedVariable int"),
	atStatement("wrong type", `var wrongType int = "text"; _ = wrongType`),
	atStatement("unused value", `"nobody wants this"`),
	atStatement("misplaced break", "break nowhere"),
	atStatement("no new variables", "_ := 1"),
	atStatement("result of nothing", "_ = func() {}()"),
	atStatement("wrong number of values", "_, _ = 1"),
	atStatement("not a function", `_ = "text"()`),
	atStatement("overflow", "var overflow uint8 = 256; _ = overflow"),
	atStatement("division by zero", "_ = 1 / 0"),
	atFunction("unknown type", "var _ nobodyHasDeclaredThisType"),
	atFunction("missing method", "var _ error = struct{}{}"),
	atFunction("recursive type", "type endlessStruct struct{ inner endlessStruct }"),
	atFunction("duplicate field", "var _ struct{ twice, twice int }"),
	atFunction("duplicate case", "func _(i int) { switch i { case 1, 1: } }"),
	atFunction("constraint", "func _() { _ = func() {}; onlyNumbers(\"\") }; func onlyNumbers[T ~int](T) {}"),
	atImport("unused import", "nobodyUsesThis", "os"),
	site("misspelled member", func(s *ast.SelectorExpr) (change, bool) {
		return change{from: s.Sel.Pos(), to: s.Sel.End(), text: "$Misspelled"}, true
	}),
	site("called twice", func(s *ast.ExprStmt) (change, bool) {
		return change{from: s.End(), to: s.End(), text: "()()", seen: s.Pos()}, true
	}),
	site("too many results", func(r *ast.ReturnStmt) (change, bool) {
		return change{from: r.Pos(), to: r.Pos() + token.Pos(len("return")), text: "$ 1, 2, 3, "}, len(r.Results) > 0
	}),
	site("mismatched types", func(b *ast.BinaryExpr) (change, bool) {
		number, ok := b.Y.(*ast.BasicLit)
		if !ok || number.Kind != token.INT {
			return change{}, false
		}
		return change{from: number.Pos(), to: number.End(), text: `"text"`}, true
	}),
	site("missing return", func(fn *ast.FuncDecl) (change, bool) {
		if fn.Type.Results == nil || len(fn.Body.List) == 0 {
			return change{}, false
		}
		last, ok := fn.Body.List[len(fn.Body.List)-1].(*ast.ReturnStmt)
		if !ok {
			return change{}, false
		}
		return change{from: last.Pos(), to: last.End(), text: "if len(\"never\") == 0 { $ }", seen: fn.Body.Rbrace}, true
	}),
}

// forParser are mistakes that are found before compiling.
var forParser = []mistake{
	atStatement("stray parenthesis", ")"),
	atStatement("stray else", "else { }"),
	atStatement("two words", "stray words"),
	atStatement("open string", `x := "never closed`),
	atStatement("open character", "x := 'ab'"),
	atStatement("no condition", "if { }"),
	atStatement("no operand", "x := ;"),
	atStatement("bad number", "x := 0x"),
	atStatement("bad name", "var 1x int"),
	atStatement("foreign character", "x := §"),
	atStatement("line directive", "//line elsewhere.go:1"),
	atFunction("nameless function", "func { }"),
	atFunction("statement outside", "x := 1"),
	atFunction("linkname", "//go:linkname a b"),
	atImport("cgo", "_", "C"),
	atImport("dependency", "_", "example.org/nobody/requires/this"),
	atImport("internal", "_", "internal/abi"),
	atImport("relative", "_", "./here"),
	site("open call", func(s *ast.ExprStmt) (change, bool) {
		call, ok := s.X.(*ast.CallExpr)
		return change{from: s.End() - 1, to: s.End()}, ok && len(call.Args) > 0
	}),
}

// forRoot are mistakes in the declarations that the runtime calls.
var forRoot = []mistake{
	atFunction("duplicate", "type Handler int"),
	atFunction("wrong hook", "func Ready() {}"),
}

// breakAll makes each mistake at the first and the last site of each file.
func breakAll(t *testing.T, src []byte, mistakes []mistake) (all []mutant) {
	t.Helper()
	for _, f := range handler.Split(handler.Filename, src) {
		if !strings.HasSuffix(f.Name, ".go") || strings.HasSuffix(f.Name, "_test.go") {
			continue
		}
		tokens := token.NewFileSet()
		syntax, err := parser.ParseFile(tokens, f.Name, f.Data, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range mistakes {
			changes := m.changes(syntax)
			if len(changes) > 2 {
				changes = []change{changes[0], changes[len(changes)-1]}
			}
			for _, c := range changes {
				broken, line := c.apply(tokens, f.Data)
				all = append(all, mutant{m.kind, replaceFile(src, f, broken), f.Name, line})
			}
		}
	}
	return all
}

// apply returns the file with the change, and the line in which the mistake is reported.
func (c change) apply(tokens *token.FileSet, data []byte) (broken string, line int) {
	from, to := tokens.Position(c.from), tokens.Position(c.to)
	text := strings.ReplaceAll(c.text, "$", string(data[from.Offset:to.Offset]))
	line = from.Line
	if c.seen.IsValid() {
		line = tokens.Position(c.seen).Line
	}
	return string(data[:from.Offset]) + text + string(data[to.Offset:]), line
}

func (m mistake) changes(syntax *ast.File) (all []change) {
	for n := range ast.Preorder(syntax) {
		if c, ok := m.at(n); ok {
			all = append(all, c)
		}
	}
	return all
}

// replaceFile returns src with other content of f.
func replaceFile(src []byte, f handler.File, content string) string {
	lines := strings.SplitAfter(string(src), "\n")
	before := strings.Join(lines[:f.Line-1], "")
	return before + content + string(src)[len(before)+len(f.Data):]
}

func functions(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("testdata/functions/*")
	if err != nil || len(files) < 12 {
		t.Fatalf("testdata/functions holds %q, %v", files, err)
	}
	all := make(map[string][]byte)
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = src
	}
	return all
}

func TestFunctionsBuild(t *testing.T) {
	b := newBuilder(t)
	for name, src := range functions(t) {
		t.Run(name, func(t *testing.T) {
			result, err := b.Build(t.Context(), src, filepath.Join(t.TempDir(), "server"))
			if err != nil {
				t.Fatal(err)
			}
			if len(result.Warnings) > 0 {
				t.Errorf("vet finds something: %v", result.Warnings)
			}
		})
	}
}

// TestMutantsOfSyntax checks that mistakes in the syntax are reported at their position.
func TestMutantsOfSyntax(t *testing.T) {
	total := 0
	for name, src := range functions(t) {
		broken := breakAll(t, src, forParser)
		for _, m := range breakAll(t, src, forRoot) {
			if !strings.Contains(m.file, "/") {
				broken = append(broken, m)
			}
		}
		for _, m := range broken {
			total++
			_, err := handler.Parse(handler.Filename, []byte(m.src))
			refused, ok := errors.AsType[*handler.Error](err)
			if !ok {
				t.Errorf("%s with %s at %s:%d is accepted", name, m.kind, m.file, m.line)
				continue
			}
			check(t, name, m, refused.Diagnostics)
		}
	}
	t.Logf("%d mutants", total)
}

// check checks that the first diagnostic has the position of the mistake.
func check(t *testing.T, name string, m mutant, all []handler.Diagnostic) {
	t.Helper()
	if len(all) == 0 || all[0].File != m.file || all[0].Line != m.line {
		t.Errorf("%s with %s at %s:%d: %v", name, m.kind, m.file, m.line, all)
	}
}

// TestMutantsOfTypes checks that mistakes that the compiler finds are reported at their position.
// The mutants are separate packages of a few archives, so that the compiler reports many at once.
func TestMutantsOfTypes(t *testing.T) {
	b := newBuilder(t)
	var all []mutant
	for name, src := range functions(t) {
		for _, m := range breakAll(t, src, forCompiler) {
			m.kind = name + " with " + m.kind
			all = append(all, m)
		}
	}
	const most = 30 // a build reports at most a hundred errors
	for batch := range slices.Chunk(all, most) {
		failure := sourceError(t, b, mutants(batch))
		if failure.Reason != builder.CompileFailed {
			t.Fatalf("%s: %v", failure.Reason, failure.Diagnostics)
		}
		if failure.Omitted > 0 {
			t.Fatalf("%d diagnostics of %d mutants are left out", failure.Omitted, len(batch))
		}
		byMutant := make(map[string][]handler.Diagnostic)
		for _, d := range failure.Diagnostics {
			dir, file, _ := strings.Cut(d.File, "/")
			d.File = file
			byMutant[dir] = append(byMutant[dir], d)
		}
		for i, m := range batch {
			check(t, "", m, byMutant[directory(i)])
		}
	}
	t.Logf("%d mutants", len(all))
}

// mutants returns an archive with each mutant in a directory, and a function that imports all of
// them.
func mutants(all []mutant) string {
	var b strings.Builder
	b.WriteString("-- go.mod --\nmodule " + module + "\n\ngo 1.26\n")
	b.WriteString("-- handler.go --\npackage handlers\n\nimport (\n\t\"net/http\"\n")
	for i := range all {
		fmt.Fprintf(&b, "\t_ %q\n", module+"/"+directory(i))
	}
	b.WriteString(")\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n")
	for i, m := range all {
		for _, f := range handler.Split(handler.Filename, []byte(m.src)) {
			if f.Name == "go.mod" {
				continue
			}
			// example.com/notes is the only module among the functions.
			data := strings.ReplaceAll(string(f.Data), "example.com/notes", module+"/"+directory(i))
			fmt.Fprintf(&b, "-- %s/%s --\n%s", directory(i), f.Name, data)
		}
	}
	return b.String()
}

const module = "example.com/mutants"

func directory(i int) string { return fmt.Sprintf("m%02d", i) }
