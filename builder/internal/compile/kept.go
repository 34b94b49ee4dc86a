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

// A programPlan is what the go command determines before it compiles a program. It is the same for
// all programs that may use the same dependencies; see toolchain.Toolchain.
type programPlan struct {
	Plan

	// AuthorLanguage is the language version of the author's module.
	AuthorLanguage string `json:"authorLanguage"`

	// AuthorDir replaces the directory of the author's module in the binary.
	AuthorDir string `json:"authorDir"`

	// Kept are the files of the compiled packages that are not in the cache of the image, by import
	// path. They are relative to toolchain.PackageCache.
	Kept map[string]string `json:"kept"`
}

// planOfImage returns the plan of a program whose source has no go.mod.
func planOfImage(image *Plan, author []*build.Package) *programPlan {
	plan := &programPlan{Plan: *image, AuthorLanguage: image.Language, AuthorDir: path.Join(program.Module, program.HandlerDir)}
	if slices.ContainsFunc(author, func(p *build.Package) bool { return slices.Contains(p.Imports, program.RuntimeModule+"/otlp") }) {
		plan.Modules = image.TracingModules
	}
	return plan
}

// keptPlanName is the name of the file with a programPlan, in a directory of dependencies.
const keptPlanName = "plan.json"

// maxKeptPlan is the maximum size of that file, in bytes. It has a line for each package.
const maxKeptPlan = 16 << 20

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
	for path, name := range image.Packages {
		if image.isStandard(path) {
			plan.Packages[path] = name
		}
	}
	return plan, nil
}

// keepPlan writes the plan for later builds with the dependencies that b.KeepPackages has kept. The
// go command has built the program in work.
func keepPlan(t *toolchain.Toolchain, b Options, work workspace) error {
	plan, err := planOfBuild(t, b.Program, work)
	if err != nil {
		return fmt.Errorf("planning the next build: %w", err)
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	name := filepath.Join(toolchain.KeptDependencies(b.Program), keptPlanName)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// The go command that fetches modules can write to this directory, so the file must be new and
	// not a link.
	file, err := os.OpenFile(filepath.Clean(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Close())
}

// planOfBuild returns the plan of a program that the go command has built in work.
func planOfBuild(t *toolchain.Toolchain, p *program.Program, work workspace) (*programPlan, error) {
	link, err := readLinkConfig(work.build)
	if err != nil {
		return nil, err
	}
	info, err := parseModules(link.modules)
	if err != nil {
		return nil, err
	}
	authors, err := authorPackages(t, p)
	if err != nil {
		return nil, err
	}
	for _, pkg := range authors {
		delete(link.packages, pkg.ImportPath)
	}
	delete(link.packages, "main")
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
	if plan.AuthorDir == "" {
		return nil, fmt.Errorf("the module %s is not part of the program", p.Path)
	}
	mod, err := p.Mod()
	if err != nil {
		return nil, err
	}
	plan.Language, plan.AuthorLanguage = version.Lang("go"+mod.Go.Version), version.Lang(goVersion(p.Source))
	plan.addPackages(t, link)
	left := int64(sandbox.MaxDisk) // a list that repeats large files must not keep this process busy
	for path, file := range link.packages {
		if plan.Packages[path] != "" {
			continue
		}
		if plan.Kept[path], err = keptFile(p, work, file, &left); err != nil {
			return nil, fmt.Errorf("finding the package %s: %w", path, err)
		}
	}
	return plan, nil
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
// compiled. The cache names files by their hash. left is the number of bytes that may still be read.
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
		return "", fmt.Errorf("all packages have more than %d bytes", int64(sandbox.MaxDisk))
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
