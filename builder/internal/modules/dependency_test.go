package modules

import (
	"errors"
	"os"
	"strings"
	"testing"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/toolchain"
)

// TestBuildReportsDependency has a module that does not compile.
func TestBuildReportsDependency(t *testing.T) {
	proxy := serveArchive(t, "example.com/greeter", strings.Replace(greeter, "return ", "return 1 + ", 1))
	const want = "go.mod:5:1: example.com/greeter@v1.0.0 does not compile here, require another version of it: greeter.go:3:30: "
	for name, tools := range map[string]*toolchain.Toolchain{
		"Image":   machine(t, proxy),
		"Machine": workbench(t, "GOPROXY="+proxy, "GOSUMDB=off", "GOFLAGS=-modcacherw"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fetchAndBuild(t, tools, buildtest.Write(t, greetingSource(t, proxy)), nil)
			if _, ok := errors.AsType[*handler.Error](err); !ok || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), os.TempDir()) {
				t.Errorf("Build: %v, want %s", err, want)
			}
		})
	}
}
