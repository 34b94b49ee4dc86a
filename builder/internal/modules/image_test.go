package modules

import (
	"bytes"
	"strings"
	"testing"

	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/toolchain"
)

// inImage returns the toolchain of the published image.
func inImage(t *testing.T, environ ...string) *toolchain.Toolchain {
	t.Helper()
	tools, err := toolchain.Find(t.Context(), append(environ, "KO_DATA_PATH="+buildtest.Image(t)))
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

// TestImageCompilesDependenciesAlone checks that neither the standard library nor the dependencies
// of the runtime are compiled again with an author's modules.
func TestImageCompilesDependenciesAlone(t *testing.T) {
	proxy := greeterProxy(t)
	tools := inImage(t, "GOPROXY="+proxy, "GOSUMDB=off")
	var trace bytes.Buffer
	binary, err := fetchAndBuild(t, tools, buildtest.Write(t, greetingSource(t, proxy)), &trace)
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

// TestImageHasTheRuntimesModules builds a source that uses dependencies of the runtime without
// network.
func TestImageHasTheRuntimesModules(t *testing.T) {
	source := strings.Replace(pinned(t, "current", metrics), "golang.org/x/sys v0.49.0", "golang.org/x/sys v0.48.0", 1)
	binary, err := fetchAndBuild(t, inImage(t, "GOPROXY=off"), buildtest.Write(t, source), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := call(t, binary, "/"); got != "counted" {
		t.Errorf("the function answers %q", got)
	}
}
