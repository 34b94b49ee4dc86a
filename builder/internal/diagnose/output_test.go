package diagnose

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

var update = flag.Bool("update", false, "write the golden files")

// TestExplain reads recorded outputs of go build -json. Each file contains the expected error.
func TestExplain(t *testing.T) {
	files, err := filepath.Glob("testdata/output/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded output: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := explainRecorded(t, archive)
			if *update {
				record(t, file, archive, got)
			}
			if diff := cmp.Diff(string(archive.Files[2].Data), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func record(t *testing.T, file string, archive *txtar.Archive, want string) {
	t.Helper()
	archive.Files[2].Data = []byte(want)
	if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
		t.Fatal(err)
	}
}

// ended returns the result of a command that failed without output.
func ended(t *testing.T) *sandbox.Result {
	t.Helper()
	failed := exec.CommandContext(t.Context(), "false")
	_ = failed.Run() // does nothing else
	return &sandbox.Result{State: failed.ProcessState}
}

// explainRecorded formats the error for the output in archive.
func explainRecorded(t *testing.T, archive *txtar.Archive) string {
	t.Helper()
	r := ended(t)
	r.Stdout.Write(archive.Files[0].Data)
	r.Stderr.Write(archive.Files[1].Data)

	tools := &toolchain.Toolchain{Root: "/var/run/ko/go", Cache: "/var/run/ko/cache", Modules: "/var/run/ko/mod"}
	p := &program.Program{Dir: "/tmp/goless-program-1", Path: "goless.io/function/handler", Source: &handler.Source{
		Files: []handler.File{{Name: "handler.go", Line: 1}},
		Imports: []handler.Import{
			{File: "handler.go", Path: "net/http", Line: 3, Column: 9},
			{File: "handler.go", Path: "net/htt", Line: 3, Column: 21},
			{File: "handler.go", Path: "syscall/js", Line: 4, Column: 2},
		},
	}}
	err := Explain(tools, p, r, errors.New("exit status 1"))
	return render(err)
}

// TestExplainUnfetched has a source with a go.mod that is not the reason why modules of the runtime
// cannot be fetched.
func TestExplainUnfetched(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/output/offline.txtar")
	if err != nil {
		t.Fatal(err)
	}
	tools := &toolchain.Toolchain{Root: "/var/run/ko/go", Cache: "/var/run/ko/cache", Modules: "/var/run/ko/mod"}
	for _, text := range []string{string(archive.Files[0].Data), strings.Replace(string(archive.Files[0].Data), "golang.org/x/sys@v0.48.0: Get ", "module lookup disabled by GOPROXY=off", 1)} {
		r := ended(t)
		r.Stdout.WriteString(text)
		if err := Explain(tools, buildtest.Write(t, buildtest.Site), r, errors.New("exit status 1")); err == nil || strings.Contains(err.Error(), "does not compile") {
			t.Errorf("Explain: %v", err)
		}
	}
}

func render(err error) string {
	compile, ok := errors.AsType[*handler.Error](err)
	if !ok {
		return fmt.Sprintf("no diagnostics: %v\n", err)
	}
	var b strings.Builder
	for _, d := range compile.Diagnostics {
		fmt.Fprintln(&b, d)
	}
	return b.String()
}

func TestExplainBoundsDiagnostics(t *testing.T) {
	d := diagnosis{program: &program.Program{Path: "m/handler"}}
	for i := range 250 {
		d.read("m/handler", []string{fmt.Sprintf("handler/x.go:%d:1: undefined: x", i+1)})
	}
	compile, ok := errors.AsType[*handler.Error](newError(d.diagnostics))
	if !ok || len(compile.Diagnostics) != 100 || compile.Omitted != 150 {
		t.Errorf("err = %+v, want 100 diagnostics and 150 omitted", compile)
	}
	if want := "x.go:1:1: undefined: x (and 249 more)"; compile.Summary() != want {
		t.Errorf("Summary = %q, want %q", compile.Summary(), want)
	}
}

// TestDependency checks a module whose directory in the cache differs from its path.
func TestDependency(t *testing.T) {
	src, err := handler.Parse(handler.Filename, []byte(strings.Replace(buildtest.Hello, "\"net/http\"", "(\n\t\"net/http\"\n\n\t_ \"github.com/Masterminds/semver\"\n)", 1)+
		"-- go.mod --\nmodule example.com/m\n\nrequire github.com/Masterminds/semver v1.0.0-RC\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, tools := &program.Program{Path: "example.com/m", Source: src}, &toolchain.Toolchain{}
	d := diagnosis{program: p, tools: tools, packages: newPackageReader(tools, p)}
	d.read("github.com/Masterminds/semver", []string{"$GOMODCACHE/github.com/!masterminds/semver@v1.0.0-!r!c/a.go:3:12: undefined: x"})
	want := "go.mod:3:1: github.com/Masterminds/semver@v1.0.0-RC does not compile; require another version of it: a.go:3:12: undefined: x"
	if len(d.dependency) != 1 || d.dependency[0].String() != want {
		t.Errorf("read: %v, want %s", d.dependency, want)
	}
}

// TestBrokenRuntime distinguishes the effects of a lack of memory on a compiler from its bugs.
func TestBrokenRuntime(t *testing.T) {
	p := buildtest.Write(t, buildtest.Hello)
	for name, c := range map[string]struct {
		limited bool
		want    bool
	}{"Limited": {true, true}, "Unlimited": {false, false}} {
		t.Run(name, func(t *testing.T) {
			r := ended(t)
			r.MemoryLimited = c.limited
			r.Stderr.WriteString("SIGSEGV: segmentation violation\nPC=0x43cefd m=2 sigcode=1 addr=0x0\n")
			tools := &toolchain.Toolchain{Root: "/go", Cache: "/cache", Modules: "/mod"}
			if err := Explain(tools, p, r, errors.New("exit status 1")); IsLimit(err) != c.want {
				t.Errorf("it is explained as %v", err)
			}
		})
	}
}
