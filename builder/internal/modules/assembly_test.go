package modules

import (
	"fmt"
	"strings"
	"testing"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// assembled returns a go.mod and a handler that require and import a module, with its checksums
// from a proxy.
func assembled(t *testing.T, proxy string) string {
	t.Helper()
	lines, err := sums(t.Context(), proxy, "example.com/asm", "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	return "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n\nrequire example.com/asm v1.0.0\n-- go.sum --\n" + lines +
		"-- handler.go --\npackage p\n\nimport \"net/http\"\nimport _ \"example.com/asm/sub\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n"
}

const assembledModule = "-- .mod --\nmodule example.com/asm\n-- .info --\n{\"Version\":\"v1.0.0\"}\n-- go.mod --\nmodule example.com/asm\n-- sub/a.go --\npackage sub\n\nfunc F()\n-- above.h --\n#define X 1\n"

// TestFetchAssembly fetches modules with assembly and with an object file, on kernels with and
// without Landlock.
func TestFetchAssembly(t *testing.T) {
	const text = "TEXT ·F(SB), 4, $0\n\tRET\n"
	own := "-- sub/a.s --\n#include \"textflag.h\"\n#include \"../above.h\"\n" + text
	confines := confinesAssembler
	t.Cleanup(func() { confinesAssembler = confines })
	for name, c := range map[string]struct {
		module   string
		confined bool
		want     string
	}{
		"Confined":   {own, true, ""},
		"Unconfined": {own, false, "go.mod:5:1: example.com/asm/sub contains assembly, which cannot be built on this kernel: without Landlock it could read the builder's files; require a module without it"},
		"Object":     {"-- sub/a.s --\n" + text + "-- sub/x.syso --\nx\n", true, "go.mod:5:1: example.com/asm/sub contains the object x.syso, but functions consist of Go and Go assembly only; require another module"},
	} {
		t.Run(name, func(t *testing.T) {
			confinesAssembler = func(*toolchain.Toolchain) bool { return c.confined }
			proxy := serveArchive(t, "example.com/asm", assembledModule+c.module)
			_, err := fetchAndBuild(t, machine(t, proxy), buildtest.Write(t, assembled(t, proxy)), nil)
			if got := fmt.Sprint(err); c.want == "" && err != nil || c.want != "" && got != c.want {
				t.Errorf("Fetch and Build: %v, want %q", err, c.want)
			}
		})
	}
}

// TestUnconfinedAssembly checks vendored assembly, which could read a netrc without Landlock.
func TestUnconfinedAssembly(t *testing.T) {
	confines := confinesAssembler
	t.Cleanup(func() { confinesAssembler = confines })
	confinesAssembler = func(*toolchain.Toolchain) bool { return false }
	p := &program.Program{Source: &handler.Source{Files: []handler.File{{Name: "handler.go"}, {Name: "vendor/example.com/asm/a.s"}}}}
	err := Fetch(t.Context(), &toolchain.Toolchain{}, FetchOptions{Program: p})
	if want := "vendor/example.com/asm/a.s:1:1: vendor/example.com/asm contains assembly, which cannot be built on this kernel: without Landlock it could read the builder's files; vendor a module without it"; err == nil || err.Error() != want {
		t.Errorf("Fetch: %v, want %s", err, want)
	}
}

// TestFetchOfManyFiles fetches a module of empty files, which use no bytes.
func TestFetchOfManyFiles(t *testing.T) {
	var files strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&files, "-- empty/%d --\n", i)
	}
	proxy := serveArchive(t, "example.com/asm", assembledModule+"-- sub/a.s --\n"+files.String())
	err := Fetch(t.Context(), machine(t, proxy), FetchOptions{Program: buildtest.Write(t, assembled(t, proxy)), Timeout: buildtest.Timeout, files: 2000})
	if want := "go.mod:1:1: the required modules take more than 2000 files; require fewer of them"; err == nil || err.Error() != want {
		t.Errorf("Fetch: %v, want %s", err, want)
	}
}
