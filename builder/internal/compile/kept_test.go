package compile

import (
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

// TestPlanOfBuild gives planOfBuild linker configurations that must not become a plan, and which the
// go command may write.
func TestPlanOfBuild(t *testing.T) {
	padding := strings.Repeat("x", 16)
	modules := "modinfo " + strconv.Quote(padding+"path\tgoless.io/function\ndep\texample.com/m\tv0.0.0\n"+padding) + "\n"
	const source = "-- go.mod --\nmodule example.com/m\n\ngo 1.26\n-- a.go --\npackage m\n\nimport \"net/http\"\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n" +
		"-- util/util.go --\npackage util\n"
	const tagged = source + "-- b.go --\n//go:build amd64.v1\n\npackage m\n"
	for name, c := range map[string]struct {
		source, config string
		want           string
	}{
		"Complete":         {source, modules + "packagefile example.com/m=FILE\npackagefile goless.io/function=FILE\npackagefile example.com/x=FILE\n", ""},
		"OwnPackage":       {source, modules + "packagefile example.com/x=FILE\npackagefile example.com/m/util=FILE\n", "another module imports the package example.com/m/util of the author"},
		"ToolTag":          {tagged, modules, "example.com/m has a file with the build constraint amd64.v1"},
		"NoModules":        {source, "packagefile example.com/x=FILE\n", "reading the modules of the program"},
		"UnknownModule":    {source, strings.Replace(modules, "example.com/m", "example.com/n", 1), "the versions of the program and of the module example.com/m are unknown"},
		"MissingPackage":   {source, modules + "packagefile example.com/x=/none\n", "finding the package example.com/x"},
		"UncachedPackage":  {source, modules + "packagefile example.com/x=OTHER\n", "finding the package example.com/x"},
		"TooManyPackages":  {source, modules + manyPackages(15000), "all packages have more than"},
		"RepeatedPackages": {source, modules + manyPackages(1000), ""},
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
