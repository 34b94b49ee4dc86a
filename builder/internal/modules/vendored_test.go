package modules

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"goless.io/builder/internal/buildtest"
)

// vendoredSource returns greeting after go mod vendor.
func vendoredSource(t *testing.T) string {
	t.Helper()
	assembly := greeter + "-- greeter_amd64.s --\n#include \"textflag.h\"\n\nTEXT ·nothing(SB), NOSPLIT, $0-0\n\tRET\n-- greeter_amd64.go --\npackage greeter\n\nfunc nothing()\n"
	proxy := serveArchive(t, "example.com/greeter", assembly)
	p := buildtest.Write(t, greetingSource(t, proxy))
	dir := filepath.Join(p.Dir, "handler")
	cmd := exec.CommandContext(t.Context(), "go", "mod", "vendor")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOSUMDB=off", "GOPROXY="+proxy, "GOMODCACHE="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go mod vendor: %v\n%s", err, out)
	}
	src, err := readModule(dir)
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, f := range src.Files {
		source.WriteString("-- " + f.Name + " --\n" + string(f.Data))
	}
	return source.String()
}

// TestBuildVendored builds without network.
func TestBuildVendored(t *testing.T) {
	tools := machine(t, "off")
	source := vendoredSource(t)
	p := buildtest.Write(t, source)
	if p.Fetches() {
		t.Error("what is vendored is fetched")
	}
	binary, err := fetchAndBuild(t, tools, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := call(t, binary, "/"), "hello from a module"; got != want {
		t.Errorf("the function answers %q, want %q", got, want)
	}

	broken := buildtest.Write(t, strings.Replace(source, "return \"hello", "return 1 + \"hello", 1))
	if _, err := fetchAndBuild(t, tools, broken, nil); err == nil || !strings.HasPrefix(err.Error(), "vendor/example.com/greeter/greeter.go:3:") {
		t.Errorf("Build: %v, want the place in the vendored file", err)
	}
	var lacking strings.Builder
	for _, f := range p.Source.Files {
		if !strings.HasPrefix(f.Name, "vendor/example.com") {
			lacking.WriteString("-- " + f.Name + " --\n" + string(f.Data))
		}
	}
	const want = "handler.go:7:2: vendor has no package example.com/greeter; add it with: go mod vendor"
	if _, err := fetchAndBuild(t, tools, buildtest.Write(t, lacking.String()), nil); err == nil || err.Error() != want {
		t.Errorf("Build: %v, want %s", err, want)
	}
}
