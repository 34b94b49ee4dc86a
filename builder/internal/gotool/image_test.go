package gotool

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"goless.io/builder/internal/program"
)

// inImage returns the toolchain as it is in the image that is published.
func inImage(t *testing.T, environ ...string) *Toolchain {
	t.Helper()
	data, err := filepath.Abs(filepath.Join("..", "..", "cmd", "builder", "kodata"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(data, "KEY"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("there is no image yet, make it with: make kodata")
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(key, []byte(program.Fingerprint())) {
		t.Fatal("kodata is of another runtime than this builder, run: make kodata")
	}
	toolchain, err := Find(t.Context(), append(environ, "KO_DATA_PATH="+data))
	if err != nil {
		t.Fatal(err)
	}
	return toolchain
}

// TestImageCompilesDependenciesAlone proves that neither the standard library nor
// what the runtime needs is compiled anew when an author's modules come with it.
func TestImageCompilesDependenciesAlone(t *testing.T) {
	proxy := greeterProxy(t)
	server := httptest.NewServer(proxy)
	defer server.Close()
	toolchain := inImage(t, "GOPROXY="+server.URL, "GOSUMDB=off")
	var trace bytes.Buffer
	binary, err := fetchAndBuild(t, toolchain, write(t, greetingSource(t, proxy)), &trace)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := call(t, binary, "/"), "hello from a module"; got != want {
		t.Errorf("the function answers %q, want %q", got, want)
	}
	const want = "example.com/greeter example.com/greeting main"
	if got := strings.Join(compiledPackages(trace.String()), " "); got != want {
		t.Errorf("compiled %s, want %s", got, want)
	}
}

func compiledPackages(commands string) (packages []string) {
	for line := range strings.Lines(commands) {
		if _, args, ok := strings.Cut(line, "/compile -o "); ok {
			_, args, _ = strings.Cut(args, " -p ")
			name, _, _ := strings.Cut(args, " ")
			packages = append(packages, name)
		}
	}
	return packages
}

// TestImageHasTheRuntimesModules has an author who uses what the runtime uses, and
// no network.
func TestImageHasTheRuntimesModules(t *testing.T) {
	source := strings.Replace(pinned(t, "current", metrics), "golang.org/x/sys v0.49.0", "golang.org/x/sys v0.48.0", 1)
	binary, err := fetchAndBuild(t, inImage(t, "GOPROXY=off"), write(t, source), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, binary, "/"); got != "counted" {
		t.Errorf("the function answers %q", got)
	}
}
