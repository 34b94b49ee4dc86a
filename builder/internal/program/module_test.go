package program_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// requirements returns the requirements of a go.mod, by path.
func requirements(t *testing.T, data []byte) (mod *modfile.File, versions map[string]string) {
	t.Helper()
	mod, err := modfile.Parse("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions = make(map[string]string)
	for _, r := range mod.Require {
		versions[r.Mod.Path] = r.Mod.Version
	}
	return mod, versions
}

func TestWriteJoinsModules(t *testing.T) {
	p := write(t, archive(`
-- a.go --
package a
-- go.mod --
module example.com/a/v3

go 1.99

toolchain go1.99.1

godebug http2client=0

require (
	example.com/b v1.2.3
	github.com/prometheus/client_golang v1.0.0
	go.uber.org/zap v1.99.0
	goless.io/runtime v0.0.0
)

replace example.com/b => example.com/fork v1.0.0

exclude example.com/b v1.3.0
-- go.sum --
example.com/b v1.2.3 h1:mine=
`))
	mod, got := requirements(t, read(t, p.Dir, "go.mod"))
	_, runtime := requirements(t, read(t, p.Dir, "runtime", "go.mod"))
	for path, want := range map[string]string{
		"example.com/a/v3":                    "v3.0.0",
		"example.com/b":                       "v1.2.3",
		"go.uber.org/zap":                     "v1.99.0", // newer than the runtime's
		"goless.io/runtime":                   "v0.0.0",
		"github.com/prometheus/client_golang": runtime["github.com/prometheus/client_golang"],
	} {
		if got[path] != want {
			t.Errorf("requires %s %q, want %q", path, got[path], want)
		}
	}
	if mod.Go.Version != "1.99" || mod.Toolchain != nil || len(mod.Godebug) != 1 || len(mod.Exclude) != 1 || len(mod.Replace) != 3 {
		t.Errorf("go.mod lacks something of the author's, or has too much:\n%s", read(t, p.Dir, "go.mod"))
	}
	sums := read(t, p.Dir, "go.sum")
	if !bytes.HasPrefix(sums, []byte("example.com/b v1.2.3 h1:mine=\n")) || !bytes.HasSuffix(sums, read(t, p.Dir, "runtime", "go.sum")) {
		t.Errorf("go.sum is not the author's and then the runtime's:\n%s", sums)
	}
}

func TestWriteUsesVendored(t *testing.T) {
	p := write(t, archive(`
-- a.go --
package a
-- go.mod --
module example.com/a

go 1.20

require (
	example.com/b v1.2.3
	example.com/c v1.0.0
)

replace example.com/c => example.com/fork v1.9.0
-- vendor/modules.txt --
# example.com/b v1.2.3
## explicit; go 1.18
example.com/b
# example.com/c v1.0.0 => example.com/fork v1.9.0
## explicit
example.com/c/sub
# example.com/c => example.com/fork v1.9.0
-- vendor/example.com/b/b.go --
package b
-- vendor/example.com/c/sub/c.go --
package sub
`))
	if p.Fetches() {
		t.Error("what is vendored is fetched")
	}
	mod, got := requirements(t, read(t, p.Dir, "go.mod"))
	for path, version := range map[string]string{"example.com/b": "v1.2.3", "example.com/c": "v1.0.0"} {
		replaced := slices.ContainsFunc(mod.Replace, func(r *modfile.Replace) bool {
			return r.Old.Path == path && r.Old.Version == version && r.New.Path == "./handler/vendor/"+path
		})
		if got[path] != version || !replaced {
			t.Errorf("%s %s does not come from the vendor directory:\n%s", path, version, read(t, p.Dir, "go.mod"))
		}
	}
	if got := string(read(t, p.Dir, "handler", "vendor", "example.com", "b", "go.mod")); !strings.Contains(got, "module example.com/b\n\ngo 1.18\n") {
		t.Errorf("the language of the vendored module is lost: %q", got)
	}
}

// TestWriteTakesWhatIsGiven has a source that vendors some packages of a module that the runtime
// also requires, which needs other packages of it.
func TestWriteTakesWhatIsGiven(t *testing.T) {
	runtime, err := modfile.Parse("go.mod", read(t, write(t, single).Dir, "runtime", "go.mod"), nil)
	if err != nil {
		t.Fatal(err)
	}
	given := runtime.Require[0].Mod
	for version, want := range map[string]bool{given.Version: false, semver.MajorMinor(given.Version) + ".9999": true} {
		p := write(t, archive("-- a.go --\npackage a\n-- go.mod --\nmodule example.com/a\n\nrequire "+given.Path+" "+version+
			"\n-- vendor/modules.txt --\n# "+given.Path+" "+version+"\n## explicit\n"+given.Path+"/sub\n-- vendor/"+given.Path+"/sub/b.go --\npackage sub\n"))
		mod, _ := requirements(t, read(t, p.Dir, "go.mod"))
		if got := slices.ContainsFunc(mod.Replace, func(r *modfile.Replace) bool { return r.Old.Path == given.Path }); got != want {
			t.Errorf("%s %s comes from the vendor directory: %t, want %t", given.Path, version, got, want)
		}
	}
}
