package builder_test

import (
	"path/filepath"
	"strings"
	"testing"

	"goless.io/builder"
)

// vendored is a source whose only dependency, example.com/c, is in vendor.
const vendored = `-- go.mod --
module example.com/m

go 1.26

require example.com/c v1.0.0
-- handler.go --
package p

import (
	"net/http"

	"example.com/c"
)

func Handler(http.ResponseWriter, *http.Request) { c.F() }
-- vendor/modules.txt --
# example.com/c v1.0.0
## explicit; go 1.26
example.com/c
`

// TestBlame contains a source for each kind of error of the go command, the compiler, the assembler
// and the linker. All of them must be reported as errors of the source, because errors of the
// builder are retried.
func TestBlame(t *testing.T) {
	const (
		c       = "-- vendor/example.com/c/c.go --\npackage c\n"
		outside = c + "func F()\n"
		module  = "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n"
		imports = "-- handler.go --\npackage p\n\nimport \"net/http\"\nimport _ \"example.com/m/a\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n"
	)
	assembly := func(text string) string {
		return outside + "-- vendor/example.com/c/c_amd64.s --\n" + text + "-- vendor/example.com/c/c_arm64.s --\n" + text
	}
	embeds := func(pattern string) string {
		return "-- handler.go --\npackage p\n\nimport _ \"embed\"\nimport \"net/http\"\n//go:embed " + pattern + "\nvar s string\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n"
	}
	cases := map[string]struct{ src, want string }{
		"AssemblyHeader":      {vendored + assembly("#include \"none.h\"\n"), "vendor/example.com/c/c_ARCH.s:2: #include: open $GOROOT/pkg/include/none.h: no such file or directory"},
		"AssemblyInstruction": {vendored + assembly("TEXT ·F(SB), 4, $0\n\tNONSENSE\n"), `vendor/example.com/c/c_ARCH.s:2: unrecognized instruction "NONSENSE"`},
		"AssemblyTwice":       {vendored + assembly("TEXT ·F(SB), 4, $0\n\tRET\nTEXT ·F(SB), 4, $0\n\tRET\n"), "vendor/example.com/c/c_ARCH.s:3: symbol example.com/c.F redeclared"},
		"AssemblyStack":       {vendored + assembly("TEXT ·F(SB), 4, $100000\n\tCALL ·F(SB)\n\tRET\n"), "handler.go:6:2: the program cannot be linked: example.com/c.F: nosplit stack over "},
		"LinkUndefined":       {vendored + outside + "-- vendor/example.com/c/c.s --\n", "handler.go:6:2: the program cannot be linked: example.com/m.Handler: relocation target example.com/c.F not defined"},
		"LinkPrivate":         {vendored + c + "import _ \"unsafe\"\n//go:linkname f runtime.sysAlloc\nfunc f()\nfunc F() { f() }\n-- vendor/example.com/c/c.s --\n", "handler.go:6:2: the program cannot be linked: link: example.com/c: invalid reference to runtime.sysAlloc"},
		"TooLarge":            {header + "var x [3 << 30]byte\nvar X = &x[1]\n", "handler.go:2:6: x: symbol too large (3221225472 bytes > 2000000000 bytes)"},
		"VendoredTypes":       {vendored + c + "func F() { x }\n", "vendor/example.com/c/c.go:2:12: undefined: x"},
		"VendoredElsewhere":   {vendored + c + "//line grammar.y:7\nfunc F() { x }\n", "go.mod:5:1: example.com/c does not compile: "},
		"VendoredEmbed":       {vendored + c + "import _ \"embed\"\n//go:embed none.txt\nvar s string\nfunc F() {}\n", "vendor/example.com/c/c.go:3:12: pattern none.txt: no matching files found"},
		"VendoredConstraint":  {vendored + "-- vendor/example.com/c/c.go --\n//go:build windows\n\npackage c\n", `handler.go:6:2: cannot import "example.com/c": build constraints exclude all Go files in `},
		"VendoredCycle":       {vendored + c + "import _ \"example.com/c/d\"\nfunc F() {}\n-- vendor/example.com/c/d/d.go --\npackage d\nimport _ \"example.com/c\"\n", "handler.go:6:2: import cycle not allowed: "},
		"VendoredIncomplete":  {vendored + c + "import _ \"example.com/d\"\nfunc F() {}\n", "vendor/example.com/c/c.go:2:8: vendor has no package example.com/d; add it with: go mod vendor"},
		"VendoredInternal":    {vendored + c + "import _ \"internal/abi\"\nfunc F() {}\n", "vendor/example.com/c/c.go:2:8: use of internal package internal/abi not allowed"},
		"VendoredProgram":     {vendored + "-- vendor/example.com/c/c.go --\npackage main\n", `handler.go:6:2: import "example.com/c" is a program, not an importable package`},
		"VendoredPackages":    {vendored + c + "-- vendor/example.com/c/d.go --\npackage d\n", "handler.go:6:2: found packages c (c.go) and d (d.go) in vendor/example.com/c"},
		"VendoredC":           {vendored + c + "import \"C\"\n", `handler.go:6:2: cannot import "example.com/c": example.com/c needs cgo (all of its files), but functions are built without it`},
		"Constraint":          {module + imports + "-- a/a.go --\n//go:build windows\n\npackage a\n", `handler.go:4:10: cannot import "example.com/m/a": build constraints exclude all Go files in a`},
		"Cycle":               {module + imports + "-- a/a.go --\npackage a\nimport _ \"example.com/m/b\"\n-- b/b.go --\npackage b\nimport _ \"example.com/m/a\"\n", "b/b.go:2:10: import cycle not allowed: "},
		"Embed":               {embeds("none.txt"), "handler.go:5:12: pattern none.txt: no matching files found"},
		"EmbedWildcard":       {embeds("*.txt"), "handler.go:5:12: pattern *.txt: no matching files found"},
		"EmbedHidden":         {embeds("d") + "-- d/.x --\n", "handler.go:5:12: pattern d: cannot embed directory d: contains no embeddable files"},
		"EmbedBelow":          {module + imports + "-- a/a.go --\npackage a\nimport _ \"embed\"\n//go:embed none.txt\nvar s string\n", "a/a.go:3:12: pattern none.txt: no matching files found"},
		"EmbedType":           {module + imports + "-- a/a.go --\npackage a\nimport _ \"embed\"\n//go:embed a.go\nvar n int\n", "a/a.go:4:5: go:embed cannot apply to var of type int"},
		"Sums":                {module + "require example.com/c v1.0.0\n-- go.sum --\nnonsense\n" + strings.Replace(imports, "example.com/m/a", "example.com/c", 1), "go.sum:1:1: malformed go.sum: wrong number of fields 1"},
		"Debug":               {module + "godebug nonsense=1\n" + strings.Replace(imports, "example.com/m/a", "fmt", 1), `go.mod:1:1: error loading go.mod: unknown godebug "nonsense"`},
		"Spaces":              {header + "-- 1+1 (2).go --\npackage handlers\nvar _ = x\n", "1+1 (2).go:2:9: undefined: x"},
	}
	b := newBuilder(t)
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := b.Build(t.Context(), []byte(test.src), filepath.Join(t.TempDir(), "server"))
			if builder.ReasonOf(err) != builder.CompileFailed {
				t.Fatalf("Build: %v, want that the compiler refuses the source", err)
			}
			got := strings.NewReplacer("c_amd64", "c_ARCH", "c_arm64", "c_ARCH").Replace(err.Error())
			if !strings.HasPrefix(got, test.want) {
				t.Errorf("Build: %s\nwant %s", got, test.want)
			}
		})
	}
}
