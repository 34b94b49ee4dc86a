package modules

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"goless.io/builder/handler"
	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/toolchain"
)

// TestBuildReportsDependency requires a module that does not compile.
func TestBuildReportsDependency(t *testing.T) {
	proxy := serveArchive(t, "example.com/greeter", strings.Replace(greeter, "return ", "return 1 + ", 1))
	const want = "go.mod:5:1: example.com/greeter@v1.0.0 does not compile; require another version of it: greeter.go:3:30: "
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

// TestBuildReportsCgo requires modules with files that need cgo.
func TestBuildReportsCgo(t *testing.T) {
	const cgo, plain = "-- greeter.go --\npackage greeter\n\n// int x;\nimport \"C\"\n\nfunc Greet() string { return \"\" }\n", "-- plain.go --\npackage greeter\n\nconst Plain = 1\n"
	const needed = "example.com/greeter needs cgo (%s), but functions are built without it; use a module in pure Go"
	mod := greeter[:strings.Index(greeter, "-- greeter.go --")]
	for name, c := range map[string]struct{ module, change, want string }{
		"Some":       {cgo + plain, "", "handler.go:10:%d: undefined: greeter.Greet; " + fmt.Sprintf(needed, "1 of its 2 files")},
		"All":        {cgo, "", "handler.go:7:%d: cannot import \"example.com/greeter\": " + fmt.Sprintf(needed, "all of its files")},
		"Dependency": {cgo + strings.Replace(plain, "1", "len(Greet())", 1), "", "go.mod:5:%d: example.com/greeter@v1.0.0 does not compile: plain.go:3:%d: undefined: Greet; " + fmt.Sprintf(needed, "1 of its 2 files")},
		"Renamed":    {cgo + plain, "hi", "handler.go:10:%d: undefined: hi.Greet; " + fmt.Sprintf(needed, "1 of its 2 files")},
		"Replaced":   {cgo + plain + "-- other.go --\n//go:build !cgo\n\npackage greeter\n", "", "handler.go:10:%d: undefined: greeter.Greet"},
		"None":       {plain, "", "handler.go:10:%d: undefined: greeter.Greet"},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := serveArchive(t, "example.com/greeter", mod+c.module)
			source := greetingSource(t, proxy)
			if c.change != "" {
				source = strings.NewReplacer("\"example.com/greeter\"", c.change+" \"example.com/greeter\"", "greeter.Greet", c.change+".Greet").Replace(source)
			}
			_, err := fetchAndBuild(t, machine(t, proxy), buildtest.Write(t, source), nil)
			if got := regexp.MustCompile(`(:\d+):\d+: `).ReplaceAllString(fmt.Sprint(err), "$1:%d: "); got != c.want {
				t.Errorf("Build: %s, want %s", got, c.want)
			}
		})
	}
}
