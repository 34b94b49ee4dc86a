package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"go/build"
	"go/version"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"goless.io/builder/internal/program"
	"goless.io/builder/internal/sandbox"
	"goless.io/builder/internal/toolchain"
)

// A programPlan is a Plan for one program, without TracingModules. It is the same for all programs
// that may use the same dependencies; see toolchain.Toolchain.
type programPlan struct {
	Plan

	// AuthorDir replaces the directory of the author's module in the binary.
	AuthorDir string `json:"authorDir"`

	// Kept are the files of the compiled packages that are not in the cache of the image, by import
	// path. They are relative to toolchain.PackageCache.
	Kept map[string]string `json:"kept"`
}

// planOfImage returns the plan of a program whose source has no go.mod.
func planOfImage(image *Plan, author []*build.Package) *programPlan {
	plan := &programPlan{Plan: *image, AuthorDir: path.Join(program.Module, program.HandlerDir)}
	if slices.ContainsFunc(author, func(p *build.Package) bool { return slices.Contains(p.Imports, program.RuntimeModule+"/otlp") }) {
		plan.Modules = image.TracingModules
	}
	return plan
}

// keptPlanName is the name of the file with a programPlan, in a directory of dependencies.
const keptPlanName = "plan.json"

const (
	// maxPackages is the maximum number of packages in a programPlan that is kept. A client of
	// Kubernetes has about 1000.
	maxPackages = 10000

	// maxKeptPlan is the maximum size of that file, in bytes. A package takes about 200.
	maxKeptPlan = 16 << 20
)

// readKeptPlan returns the plan that keepPlan has written, with the standard library of the image.
func readKeptPlan(t *toolchain.Toolchain, image *Plan) (*programPlan, error) {
	if t.Dependencies == "" {
		return nil, errors.New("no earlier build has kept dependencies")
	}
	data, err := sandbox.ReadResult(t.Dependencies, keptPlanName, maxKeptPlan)
	if err != nil {
		return nil, err
	}
	plan := new(programPlan)
	if err := json.Unmarshal(data, plan); err != nil {
		return nil, fmt.Errorf("reading the plan of the dependencies: %w", err)
	}
	if plan.Packages == nil {
		plan.Packages = map[string]string{}
	}
	for path, name := range image.Packages {
		if image.isStandard(path) {
			plan.Packages[path] = name
		}
	}
	return plan, nil
}

// keepPlan writes the plan for later builds with the dependencies that b.KeepPackages has kept, unless
// these need the go command. The go command has built the program in work.
func keepPlan(t *toolchain.Toolchain, b Options, work workspace) error {
	dir, err := os.OpenRoot(toolchain.KeptDependencies(b.Program))
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // it is only a directory
	// Without Landlock, the go command that fetched modules could have created it.
	if err := dir.Remove(keptPlanName); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	plan, err := planOfBuild(t, b.Program, work)
	if err != nil {
		return fmt.Errorf("planning the next build: %w", err)
	}
	if plan == nil {
		return nil
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	file, err := dir.OpenFile(keptPlanName, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// planOfBuild returns the plan of a program that the go command has built in work; nil if newDirect
// would not use it.
func planOfBuild(t *toolchain.Toolchain, p *program.Program, work workspace) (*programPlan, error) {
	link, err := readLinkConfig(work.build)
	if err != nil {
		return nil, err
	}
	info, err := parseModules(link.modules)
	if err != nil {
		return nil, err
	}
	mod, err := p.Mod()
	if err != nil {
		return nil, err
	}
	dirs := authorDirs(p)
	author, err := authorPackages(t, dirs, []string{p.Imported()})
	if err != nil || len(author) > maxDirect {
		return nil, err
	}
	// If another module imports one of them too, that module becomes part of the plan. After a change
	// of the package, the linker reports that the module was compiled with another version of it.
	for _, pkg := range author {
		delete(link.packages, pkg.ImportPath)
	}
	delete(link.packages, program.Module)
	if len(link.packages) > maxPackages {
		return nil, fmt.Errorf("the program has %d packages, at most %d can be kept", len(link.packages), maxPackages)
	}
	plan := &programPlan{Plan: Plan{Modules: link.modules, Packages: map[string]string{}}, Kept: map[string]string{}}
	for _, setting := range info.Settings {
		if setting.Key == "DefaultGODEBUG" {
			plan.GODEBUG = setting.Value
		}
	}
	for _, module := range info.Deps {
		if module.Path == p.Path {
			plan.AuthorDir = module.Path + "@" + module.Version
		}
	}
	if plan.AuthorDir == "" || mod.Go == nil {
		return nil, fmt.Errorf("the versions of the program and of the module %s are unknown", p.Path)
	}
	plan.Language = version.Lang("go" + mod.Go.Version)
	plan.addPackages(t, link)
	return plan, plan.addKept(p, dirs, work, link)
}

// addKept adds the linked packages that are not in the cache of the image.
func (p *programPlan) addKept(of *program.Program, dirs map[string]string, work workspace, link *linkConfig) (err error) {
	left := int64(sandbox.MaxDisk)
	for path, file := range link.packages {
		if p.Packages[path] != "" {
			continue
		}
		if dirs[path] != "" {
			return fmt.Errorf("another module imports the package %s of the author", path)
		}
		if p.Kept[path], err = keptFile(of, work, file, &left); err != nil {
			return fmt.Errorf("finding the package %s: %w", path, err)
		}
	}
	return nil
}

// parseModules parses the linker's modinfo, a quoted string. The text has a prefix and a suffix of
// 16 bytes each, by which programs can be searched for it.
func parseModules(quoted string) (*debug.BuildInfo, error) {
	text, err := strconv.Unquote(quoted)
	if err != nil || len(text) < 32 {
		return nil, fmt.Errorf("reading the modules of the program: %q", quoted)
	}
	return debug.ParseBuildInfo(text[16 : len(text)-16])
}

// keptFile returns the name, in the cache of kept packages, of a package that the go command has
// compiled. The cache names files by their hash. left is the number of bytes that may still be read: a
// list that repeats files must not keep this process busy.
func keptFile(p *program.Program, work workspace, compiled string, left *int64) (string, error) {
	name, err := filepath.Rel(work.build, compiled)
	if err != nil {
		return "", err
	}
	file, err := sandbox.OpenResult(work.build, name)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it was only read
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(file, *left+1))
	if err != nil {
		return "", err
	}
	if *left -= n; *left < 0 {
		return "", fmt.Errorf("all packages together have more than %d bytes", int64(sandbox.MaxDisk))
	}
	digits := hex.EncodeToString(h.Sum(nil))
	kept := filepath.Join(digits[:2], digits+"-d")
	_, err = os.Lstat(filepath.Join(toolchain.PackageCache(toolchain.KeptDependencies(p)), kept))
	return kept, err
}

// isStandard reports whether a package is in the standard library, if the image contains it.
func (p *Plan) isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return p.Packages[path] != "" && !strings.Contains(first, ".")
}
