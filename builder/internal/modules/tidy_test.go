package modules

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/toolchain"
)

// workbench returns a toolchain that fetches from proxy, as on the machine of a
// person.
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

// TestTidyKnowsWhatABuildNeeds has an author's version that makes the runtime need
// another module.
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
	if _, ok := errors.AsType[*handler.Error](err); !ok || !strings.HasPrefix(err.Error(), "handler.go:3:10: there is no module for the package example.com/none: ") || strings.Contains(err.Error(), dir) {
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
