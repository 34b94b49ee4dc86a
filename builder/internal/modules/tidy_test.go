package modules

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/goproxytest"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/toolchain"
)

// workbench returns a toolchain that fetches from proxy, like that of a developer's machine.
func workbench(t *testing.T, network ...string) *toolchain.Toolchain {
	t.Helper()
	tools := buildtest.Machine(t)
	modules, err := runtimeModules()
	if err != nil {
		t.Fatal(err)
	}
	tools.Modules = t.TempDir()
	if err := os.CopyFS(tools.Modules, os.DirFS(modules)); err != nil {
		t.Fatal(err)
	}
	tools.Network = network
	return tools
}

func TestTidy(t *testing.T) {
	proxy := serveModules(t).URL
	tools := workbench(t, "GOPROXY="+proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw")
	dir := t.TempDir()
	source := strings.Replace(libraries, "import (", "import (\n\t\"goless.io/runtime\"\n\t_ \"goless.io/runtime/nothing\"", 1) + "\nvar _ = runtime.Main\n"
	source = strings.Replace(source, "\t_ \"goless.io/runtime/nothing\"", "", 1)
	if err := os.WriteFile(filepath.Join(dir, "handler.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Tidy(t.Context(), tools, dir, "example.com/mine"); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	mod := read("go.mod")
	for _, want := range []string{"module example.com/mine\n", "github.com/go-chi/chi/v5 v5.5.0\n", "github.com/prometheus/client_golang v1.25.0\n"} {
		if !strings.Contains(mod, want) {
			t.Errorf("go.mod lacks %q:\n%s", want, mod)
		}
	}
	if strings.Contains(mod, "goless.io") || strings.Contains(mod, os.TempDir()) || strings.Contains(mod, "zap") {
		t.Errorf("go.mod knows of the runtime:\n%s", mod)
	}
	again := mod + read("go.sum")
	if err := Tidy(t.Context(), tools, dir, "example.com/other"); err != nil {
		t.Fatal(err)
	}
	if again != read("go.mod")+read("go.sum") {
		t.Error("to tidy twice is not to tidy once")
	}
	p := buildtest.Write(t, "-- handler.go --\n"+source+"-- go.mod --\n"+mod+"-- go.sum --\n"+read("go.sum"))
	if err := Fetch(t.Context(), machine(t, proxy), FetchOptions{Program: p, Timeout: buildtest.Timeout}); err != nil {
		t.Errorf("Fetch of what is tidy: %v", err)
	}
}

// shared is an older version of a module that the runtime also requires. Newer versions of other
// modules of the runtime require a newer version of it, and a newer Go.
const shared = "-- .mod --\nmodule golang.org/x/sys\n\ngo 1.18\n-- .info --\n{\"Version\":\"v0.22.0\"}\n-- go.mod --\nmodule golang.org/x/sys\n\ngo 1.18\n-- unix/unix.go --\npackage unix\n"

// TestTidyKeeps covers modules whose versions go mod tidy does not change.
func TestTidyKeeps(t *testing.T) {
	made := t.TempDir()
	wrapper := strings.NewReplacer("golang.org/x/sys", "example.com/wrapper", "v0.22.0", "v1.0.0", "go 1.18", "go 1.18\n\nrequire golang.org/x/sys v0.22.0", "unix/unix.go", "wrapper.go", "package unix", "package wrapper\n\nimport _ \"golang.org/x/sys/unix\"").Replace(shared)
	if err := errors.Join(
		os.WriteFile(filepath.Join(made, "golang.org_x_sys_v0.22.0.txtar"), []byte(shared), 0o600),
		os.WriteFile(filepath.Join(made, "example.com_wrapper_v1.0.0.txtar"), []byte(wrapper), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	proxies := goproxytest.NewTestServer(t, made, "").URL + "," + serveModules(t).URL
	tools := workbench(t, "GOPROXY="+proxies, "GOSUMDB=off", "GOFLAGS=-modcacherw")
	for name, c := range map[string]struct{ mod, imports, want string }{
		"Shared":    {"go 1.20\n\ntoolchain go1.21.0\n\nrequire golang.org/x/sys v0.22.0\n", `"golang.org/x/sys/unix"`, ""},
		"Runtime":   {"go 1.20\n\nrequire golang.org/x/sys v0.22.0\n", `"golang.org/x/sys/unix"; _ "goless.io/runtime"`, ""},
		"Block":     {"go 1.20\n\nrequire (\n\texample.com/wrapper v1.0.0\n\tgolang.org/x/sys v0.22.0 // why\n)\n", `"golang.org/x/sys/unix"; _ "goless.io/runtime/otlp"; _ "example.com/wrapper"`, ""},
		"Unlisted":  {"go 1.16\n\nrequire example.com/wrapper v1.0.0\n", `"example.com/wrapper"`, ""},
		"OfAnother": {"go 1.20\n\nrequire example.com/wrapper v1.0.0\n\nrequire golang.org/x/sys v0.22.0 // indirect\n", `"example.com/wrapper"; _ "goless.io/runtime"`, ""},
		"Separate":  {"go 1.20\n\nrequire example.com/wrapper v1.0.0\n\nrequire golang.org/x/sys v0.22.0\n", `"example.com/wrapper"; _ "goless.io/runtime"; _ "golang.org/x/sys/unix"`, ""},
		"NewImport": {"go 1.20\n\nrequire example.com/wrapper v1.0.0\n\nrequire golang.org/x/sys v0.22.0 // indirect\n", `"example.com/wrapper"; _ "golang.org/x/sys/unix"`, "go 1.20\n\nrequire example.com/wrapper v1.0.0\n\nrequire golang.org/x/sys v0.22.0\n"},
		"NewOfOld":  {"go 1.16\n\nrequire example.com/wrapper v1.0.0\n", `"example.com/wrapper"; _ "golang.org/x/sys/unix"`, "go 1.16\n\nrequire (\n\texample.com/wrapper v1.0.0\n\tgolang.org/x/sys v0.22.0\n)\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, mod := t.TempDir(), "module example.com/mine\n\n"+c.mod
			source := "package p\n\nimport \"net/http\"\nimport (_ " + c.imports + ")\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n"
			if err := errors.Join(os.WriteFile(filepath.Join(dir, goMod), []byte(mod), 0o600), os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o600)); err != nil {
				t.Fatal(err)
			}
			if err := Tidy(t.Context(), tools, dir, ""); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(dir, goMod))
			want := "module example.com/mine\n\n" + cmp.Or(c.want, c.mod)
			if diff := gocmp.Diff(want, string(got)); err != nil || diff != "" {
				t.Errorf("%v, -want +got\n%s", err, diff)
			}
		})
	}
}

// TestTidyKeepsLineEnds tidies files with CRLF, which the go command reads but does not write.
func TestTidyKeepsLineEnds(t *testing.T) {
	proxy := serveModules(t).URL
	tools := workbench(t, "GOPROXY="+proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw")
	dir := t.TempDir()
	read := func() string {
		mod, err := os.ReadFile(filepath.Join(dir, goMod))
		sums, err2 := os.ReadFile(filepath.Join(dir, goSum))
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return string(mod) + string(sums)
	}
	write := func(change ...string) {
		file := filepath.Join(dir, goMod)
		data, err := os.ReadFile(file)
		if err := errors.Join(err, os.WriteFile(file, []byte(strings.NewReplacer(change...).Replace(string(data))), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	source := "package p\n\nimport _ \"github.com/go-chi/chi/v5\"\n"
	if err := os.WriteFile(filepath.Join(dir, "p.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	tidyAgain := func() {
		if err := Tidy(t.Context(), tools, dir, "example.com/mine"); err != nil {
			t.Fatal(err)
		}
	}
	tidyAgain()
	tidied := strings.ReplaceAll(read(), "\n", "\r\n")
	_, sums, _ := strings.Cut(tidied, "v5.5.0\r\n")
	if err := os.WriteFile(filepath.Join(dir, goSum), []byte(sums), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		change []string
		want   string
	}{
		{[]string{"\n", "\r\n"}, tidied},
		{[]string{"\r\nrequire", "\r\nrequire example.com/unused v1.0.0\r\n\r\nrequire"}, tidied},
		{[]string{"mine\r\n", "mine\n"}, strings.Replace(tidied, "mine\r\n", "mine\n", 1)},
	} {
		write(c.change...)
		tidyAgain()
		if diff := gocmp.Diff(c.want, read()); diff != "" {
			t.Errorf("Tidy after %q: -want +got\n%s", c.change, diff)
		}
		if err := Get(t.Context(), tools, dir, "", "github.com/go-chi/chi/v5@v5.5.0"); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(c.want, read()); diff != "" {
			t.Errorf("Get after %q: -want +got\n%s", c.change, diff)
		}
	}
}

// TestTidyKnowsWhatABuildNeeds requires a version that makes the runtime need another module.
func TestTidyKnowsWhatABuildNeeds(t *testing.T) {
	source, proxy := newerSource(t)
	tools := workbench(t, "GOPROXY="+proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw")
	p := buildtest.Write(t, source)
	dir := t.TempDir()
	for _, f := range p.Source.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Tidy(t.Context(), tools, dir, ""); err != nil {
		t.Fatal(err)
	}
	src, err := readModule(dir)
	if err != nil {
		t.Fatal(err)
	}
	var tidied strings.Builder
	for _, f := range src.Files {
		tidied.WriteString("-- " + f.Name + " --\n" + string(f.Data))
	}
	if err := Fetch(t.Context(), machine(t, proxy), FetchOptions{Program: buildtest.Write(t, tidied.String()), Timeout: buildtest.Timeout}); err != nil {
		t.Errorf("Fetch of what is tidy: %v", err)
	}
}

func TestTidyReports(t *testing.T) {
	proxy := serveModules(t).URL
	tools := workbench(t, "GOPROXY="+proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "handler.go"), []byte("package p\n\nimport _ \"example.com/none\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Tidy(t.Context(), tools, dir, "example.com/mine")
	if _, ok := errors.AsType[*handler.Error](err); !ok || !strings.HasPrefix(err.Error(), "handler.go:3:10: no module provides the package example.com/none: ") || strings.Contains(err.Error(), dir) {
		t.Errorf("Tidy: %v", err)
	}
}

func TestTidyWithoutName(t *testing.T) {
	tools, dir := workbench(t, "GOPROXY=off", "GOSUMDB=off"), t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "handler.go"), []byte(buildtest.Hello), 0o644),
		os.WriteFile(filepath.Join(dir, "go.mod"), []byte("go 1.26\n"), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	if err := Tidy(t.Context(), tools, dir, "example.com/mine"); err == nil || !strings.Contains(err.Error(), "missing module declaration") {
		t.Errorf("Tidy of a go.mod without a module: %v", err)
	}
}
