package compile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"goless.io/builder/internal/buildtest"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// TestPlanOfBuild gives planOfBuild configurations of the linker.
func TestPlanOfBuild(t *testing.T) {
	padding := strings.Repeat("x", 16)
	modules := "modinfo " + strconv.Quote(padding+"path\tgoless.io/function\ndep\texample.com/m\tv0.0.0\n"+padding) + "\n"
	const source = "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n-- a.go --\npackage m\n\nimport \"net/http\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n" +
		"-- util/util.go --\npackage util\n"
	for name, c := range map[string]struct {
		source, config string
		want           string
	}{
		"Complete":         {source, modules + "packagefile example.com/m=FILE\npackagefile goless.io/function=FILE\npackagefile example.com/x=FILE\n", ""},
		"OwnPackage":       {source, modules + "packagefile example.com/x=FILE\npackagefile example.com/m/util=FILE\n", "another module imports the package example.com/m/util of the author"},
		"NoModules":        {source, "packagefile example.com/x=FILE\n", "reading the modules of the program"},
		"UnknownModule":    {source, strings.Replace(modules, "example.com/m", "example.com/n", 1), "the versions of the program and of the module example.com/m are unknown"},
		"MissingPackage":   {source, modules + "packagefile example.com/x=/none\n", "finding the package example.com/x"},
		"UncachedPackage":  {source, modules + "packagefile example.com/x=OTHER\n", "finding the package example.com/x"},
		"TooManyPackages":  {source, modules + manyPackages(10001), "the program has 10001 packages, at most 10000 can be kept"},
		"RepeatedPackages": {source, modules + manyPackages(10000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := buildtest.Write(t, c.source)
			work := builtByGo(t, p, c.config)
			plan, err := planOfBuild(buildtest.Machine(t), p, work)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("planOfBuild: %v, want %s", err, c.want)
				}
				return
			}
			if err != nil || len(plan.Kept) == 0 || plan.Kept["example.com/m"]+plan.Kept["goless.io/function"] != "" {
				t.Errorf("planOfBuild: %v, %v", plan, err)
			}
		})
	}
}

// TestKeepPlan checks that keepPlan replaces what a go command has created in the place of the plan,
// and that an empty plan does no harm.
func TestKeepPlan(t *testing.T) {
	tools := planned(t)
	p := buildtest.Write(t, "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n-- a.go --\npackage m\n\nimport \"net/http\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n")
	padding := strings.Repeat("x", 16)
	good := "modinfo " + strconv.Quote(padding+"path\tgoless.io/function\ndep\texample.com/m\tv0.0.0\n"+padding) + "\n"
	tools.Dependencies = toolchain.KeptDependencies(p)
	file, elsewhere := filepath.Join(tools.Dependencies, keptPlanName), filepath.Join(t.TempDir(), "elsewhere")
	for config, wantErr := range map[string]bool{good: false, "": true} {
		work := builtByGo(t, p, config)
		if err := errors.Join(os.WriteFile(elsewhere, []byte("{}"), 0o600), os.RemoveAll(file), os.Symlink(elsewhere, file)); err != nil {
			t.Fatal(err)
		}
		if err := keepPlan(tools, Options{Program: p}, work); (err != nil) != wantErr {
			t.Errorf("keepPlan: %v", err)
		}
		if _, err := readKeptPlan(tools, &Plan{}); (err != nil) != wantErr {
			t.Errorf("readKeptPlan: %v", err)
		}
		if data, err := os.ReadFile(elsewhere); err != nil || string(data) != "{}" {
			t.Errorf("the target of a link became %q, %v", data, err)
		}
	}
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if newDirect(tools, Options{Program: p}, workspace{}) == nil {
		t.Error("an empty plan cannot be read")
	}
}

// builtByGo returns the workspace of a build of p with this configuration of the linker, and keeps a
// package. FILE is replaced by the path of the kept package, and OTHER by that of another one.
func builtByGo(t *testing.T, p *program.Program, config string) workspace {
	t.Helper()
	work, err := newWorkspace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(work.remove)
	dir := filepath.Join(work.build, "go-build1", "b001")
	file, other := filepath.Join(dir, "a.a"), filepath.Join(dir, "other.a")
	const emptyHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	kept := filepath.Join(toolchain.PackageCache(toolchain.KeptDependencies(p)), emptyHash[:2], emptyHash+"-d")
	config = strings.NewReplacer("FILE", file, "OTHER", other).Replace(config)
	for name, data := range map[string]string{file: "", other: "other", kept: "", filepath.Join(dir, "importcfg.link"): config} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return work
}

// manyPackages returns lines of a linker configuration for n packages in the same file.
func manyPackages(n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "packagefile example.com/x/%d=FILE\n", i)
	}
	return lines.String()
}
