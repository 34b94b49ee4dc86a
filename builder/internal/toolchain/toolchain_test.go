package toolchain

import (
	"errors"
	"go/build"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// image creates the data of an image with dirs, and returns the environment of a process in it.
func image(t *testing.T, dirs ...string) (data string, environ []string) {
	t.Helper()
	data = t.TempDir()
	for _, dir := range dirs {
		if err := os.MkdirAll(filepath.Join(data, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if len(dirs) > 0 {
		if err := os.WriteFile(filepath.Join(data, "go", "VERSION"), []byte("go1.99.1\ntime 2026\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return data, []string{"KO_DATA_PATH=" + data, "HTTPS_PROXY=http://example.com"}
}

func tools() string { return filepath.Join("go", "pkg", "tool", runtime.GOOS+"_"+runtime.GOARCH) }

func TestFindInImage(t *testing.T) {
	data, environ := image(t, tools(), "cache", "mod")
	got, err := Find(t.Context(), environ)
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != "go1.99.1" || got.Root != filepath.Join(data, "go") || !got.Sealed {
		t.Errorf("Find = %+v, want the sealed toolchain of the image", got)
	}
}

func TestFindRefusesBrokenPlan(t *testing.T) {
	data, environ := image(t, tools(), "cache", "mod")
	if err := os.WriteFile(filepath.Join(data, "plan.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(t.Context(), environ); err == nil || !strings.Contains(err.Error(), "plan.json is not valid JSON") {
		t.Errorf("Find: %v, want what is wrong with plan.json", err)
	}
}

func TestFindNothing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, inImage := image(t)
	_, incomplete := image(t, tools(), "mod")
	_, foreign := image(t, filepath.Join("go", "pkg", "tool", "plan9_386"))
	for name, c := range map[string]struct {
		environ []string
		remedy  string
	}{
		"Machine": {nil, "install Go"},
		"Image":   {inImage, "make images"},
		"Cache":   {incomplete, "with a build cache in this image; publish the image with: make images"},
		"Foreign": {foreign, runtime.GOARCH},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Find(t.Context(), c.environ)
			if !errors.Is(err, ErrNoToolchain) || !strings.Contains(err.Error(), c.remedy) {
				t.Errorf("Find: %v, want ErrNoToolchain and %q", err, c.remedy)
			}
		})
	}
}

func TestFindOnMachine(t *testing.T) {
	environ := append(os.Environ(), "KO_DATA_PATH=", "GOPROXY=https://example.com/proxy", "SECRET=1", "NO_PROXY=example.org")
	got, err := Find(t.Context(), environ)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.Version, "go1.") || !filepath.IsAbs(got.Root) || got.Sealed {
		t.Errorf("Find = %+v, want the toolchain of the machine", got)
	}
	for _, variable := range []string{"GOPROXY=https://example.com/proxy", "NO_PROXY=example.org"} {
		if !slices.Contains(got.Network, variable) {
			t.Errorf("the network is reached without %s", variable)
		}
	}
}

// TestFindOnMachineRefusesOldGo checks that an old Go has its own error, and not one of a later
// failure.
func TestFindOnMachineRefusesOldGo(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho '{\"GOVERSION\": \"go1.22.12 X:nocoverageredesign\", \"GOROOT\": \"/go\"}'\n"
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700); err != nil { //nolint:gosec // it is executed
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	_, err := Find(t.Context(), nil)
	if want := filepath.Join(dir, "go") + " is go1.22.12, which is too old: install Go 1.26 or newer and add it to PATH"; err == nil || err.Error() != want {
		t.Errorf("Find: %v, want %s", err, want)
	}
}

func TestFindOnMachineNamesTMPDIR(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("TMPDIR", none)
	_, err := Find(t.Context(), append(os.Environ(), "KO_DATA_PATH="))
	if want := "there is no directory " + none + " for temporary files, set TMPDIR to one"; err == nil || err.Error() != want {
		t.Errorf("Find: %v, want %s", err, want)
	}
}

func TestFindOnMachineWithoutHome(t *testing.T) {
	_, err := Find(t.Context(), []string{"PATH=" + os.Getenv("PATH")})
	if want := "has no cache here, set HOME to a directory that can be written"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("Find: %v, want %s", err, want)
	}
}

func TestEnvironIsAssembledFromNothing(t *testing.T) {
	t.Setenv("SECRET", "1")
	t.Setenv("GOFLAGS", "-toolexec=/bin/evil")
	t.Setenv("GOEXPERIMENT", "nonsense")
	toolchain := &Toolchain{Root: "/go", Cache: "/cache", Modules: "/mod", Sealed: true, Processors: 7, Network: []string{"NETRC=/netrc"}}
	env := toolchain.Environ("/work", "/mod", false)
	for _, want := range []string{"GOFLAGS=", "GOEXPERIMENT=", "GOPROXY=off", "GOSUMDB=off", "GOCACHE=/cache", "GOMODCACHE=/mod", "CGO_ENABLED=0", "GOENV=off", "GOTOOLCHAIN=local", "GODEBUG=goindex=0", "GOAUTH=off", "TMPDIR=/work", "GOMAXPROCS=7"} {
		if !slices.Contains(env, want) {
			t.Errorf("the environment lacks %s", want)
		}
	}
	if slices.ContainsFunc(env, func(variable string) bool {
		return strings.HasPrefix(variable, "SECRET=") || strings.HasPrefix(variable, "NETRC=")
	}) {
		t.Error("the environment has a variable that a compiler has no need of")
	}
}

func TestInputsAndImportable(t *testing.T) {
	toolchain, err := Find(t.Context(), append(os.Environ(), "KO_DATA_PATH="))
	if err != nil {
		t.Fatal(err)
	}
	importable, err := toolchain.Importable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(importable, "net/http") || slices.Contains(importable, "internal/abi") || slices.Contains(importable, "net/http/internal") {
		t.Errorf("Importable = %q", importable)
	}
	dir := t.TempDir()
	for name, data := range map[string]string{"go.mod": "module m\n", "main.go": "package main\n\nimport _ \"embed\"\n\n//go:embed go.mod\nvar s string\n\nfunc main() {}\n", "x_plan9.go": "package main\n", "p/p_test.go": "package p\n\nimport _ \"testing\"\n"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(data), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	inputs, err := toolchain.Inputs(t.Context(), dir, "m/p")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"main.go": true, "go.mod": true, "x_plan9.go": false, "p/p_test.go": true, filepath.Join("src", "testing", "internal", "testdeps", "deps.go"): true} {
		got := slices.Contains(inputs, filepath.Join(dir, name)) || slices.Contains(inputs, filepath.Join(toolchain.Root, name))
		if got != want {
			t.Errorf("%s is an input: %t, want %t", name, got, want)
		}
	}
}

// TestBuildContext checks that the environment of this process does not matter.
func TestBuildContext(t *testing.T) {
	before := build.Default
	t.Cleanup(func() { build.Default = before })
	build.Default.GOOS, build.Default.GOARCH = "plan9", "386" // as with GOOS and GOARCH in the environment
	c := (&Toolchain{Version: "go1.27.4"}).BuildContext()
	if c.GOOS != runtime.GOOS || c.GOARCH != runtime.GOARCH {
		t.Errorf("files are chosen for %s/%s, want %s/%s", c.GOOS, c.GOARCH, runtime.GOOS, runtime.GOARCH)
	}
}

// TestConfinement covers kernels of several years.
func TestConfinement(t *testing.T) {
	for version, want := range map[int]string{0: "only the container restricts the files", 1: "older than Linux 6.7", 3: "older than Linux 6.7", 4: "older than Linux 6.12", 5: "older than Linux 6.12", 6: "", 10: ""} {
		if got := confinement(version, true); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("of version %d is said %q, want %q", version, got, want)
		}
	}
	if got, want := confinement(10, false), "outlive its build"; !strings.Contains(got, want) {
		t.Errorf("without seccomp is said %q, want %q", got, want)
	}
}

func TestWithoutDirect(t *testing.T) {
	cases := map[string]struct {
		defaults string
		network  []string
		want     string
	}{
		"Default": {"# GOPROXY\nGOPROXY=https://proxy.example.com,direct\nGOSUMDB=off\n", nil, "https://proxy.example.com"},
		"Pipe":    {"GOPROXY=https://proxy.example.com|direct\n", nil, "https://proxy.example.com"},
		"Direct":  {"GOPROXY=direct\n", nil, "off"},
		"None":    {"", nil, "off"},
		"Set":     {"GOPROXY=https://proxy.example.com,direct\n", []string{"GOPROXY=direct"}, "direct"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			tools := &Toolchain{Root: t.TempDir(), Network: c.network}
			if err := os.WriteFile(filepath.Join(tools.Root, "go.env"), []byte(c.defaults), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tools.WithoutDirect(); err != nil {
				t.Fatal(err)
			}
			if got := tools.Setting("GOPROXY"); got != c.want {
				t.Errorf("GOPROXY is %q, want %q", got, c.want)
			}
		})
	}
	if err := (&Toolchain{Root: t.TempDir()}).WithoutDirect(); err == nil {
		t.Error("a toolchain without defaults has some")
	}
}
