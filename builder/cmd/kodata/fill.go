package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/program"
	"goless.io/builder/internal/toolchain"
)

// fill creates the contents of dir for programs of arch. It removes its temporary files from dir at
// the end.
func fill(ctx context.Context, dir, arch string) error {
	machine, err := toolchain.Find(ctx, os.Environ())
	if err != nil {
		return err
	}
	work := filepath.Join(dir, "work")
	root, err := install(ctx, dir, work, arch)
	if err != nil {
		return err
	}
	tools := &toolchain.Toolchain{
		Version: toolchain.Pinned,
		Root:    root,
		Cache:   filepath.Join(dir, "cache"),
		Modules: filepath.Join(dir, "mod"),
		Arch:    arch,
		// Modules in the cache of this machine are not fetched again.
		Network: append(machine.Network, "GOPROXY=file://"+machine.Modules+"/cache/download,"+cmp.Or(machine.Setting("GOPROXY"), "off")),
	}
	everything, err := warm(ctx, tools, work)
	if err != nil {
		return err
	}
	if err := pruneToolchain(ctx, tools, everything, filepath.Join(dir, "go", "src")); err != nil {
		return err
	}
	if tools.Plan, err = writePlan(ctx, tools, everything, dir); err != nil {
		return err
	}
	if err := clearTimes(tools.Cache); err != nil {
		return err
	}
	if err := seal(dir); err != nil {
		return err
	}
	if err := verify(ctx, tools); err != nil {
		return err
	}
	// Remove this file only now: it contains the time of the last trim. Without it, the go command
	// would have removed old entries from the cache, and seal has made all of them old.
	if err := os.Remove(filepath.Join(tools.Cache, "trim.txt")); err != nil {
		return err
	}
	return os.RemoveAll(work)
}

// install installs the toolchain for arch in dir, and returns the root of a toolchain that can be
// executed here. If arch is not that of this machine, the latter compiles the former, as in Go's
// own releases.
func install(ctx context.Context, dir, work, arch string) (root string, err error) {
	log.Printf("downloading %s for linux/%s", toolchain.Pinned, runtime.GOARCH)
	source, err := toolchain.Download(ctx, os.Environ(), toolchain.Pinned, "linux", runtime.GOARCH)
	if err != nil {
		return "", err
	}
	root = filepath.Join(dir, "go")
	if err := copyToolchain(source, root, false); err != nil {
		return "", fmt.Errorf("copying the toolchain: %w", err)
	}
	if arch == runtime.GOARCH {
		return root, nil
	}
	foreign := root
	root = filepath.Join(work, "go")
	if err := copyToolchain(source, root, true); err != nil {
		return "", fmt.Errorf("copying the toolchain: %w", err)
	}
	log.Printf("compiling the toolchain for linux/%s, which takes some minutes", arch)
	if err := os.RemoveAll(filepath.Join(foreign, "pkg", "tool")); err != nil {
		return "", err
	}
	own := &toolchain.Toolchain{Version: toolchain.Pinned, Root: root, Modules: filepath.Join(work, "mod")}
	return root, own.CompileTools(ctx, arch, foreign, work)
}

// warm fills the cache by building a function that imports all packages, and its test. It returns
// the program.
func warm(ctx context.Context, tools *toolchain.Toolchain, work string) (*program.Program, error) {
	log.Print("compiling the standard library and the runtime, which takes a minute or two")
	started := time.Now()
	packages, err := tools.Importable(ctx)
	if err != nil {
		return nil, err
	}
	packages = append(packages, "goless.io/runtime", "goless.io/runtime/otlp")
	everything, err := write(filepath.Join(work, "everything"), packages)
	if err != nil {
		return nil, err
	}
	_, err = compile.Build(ctx, tools, compile.Options{Program: everything, Output: filepath.Join(work, "server"), Timeout: time.Hour})
	if err != nil {
		return nil, fmt.Errorf("compiling everything: %w", err)
	}
	if _, err := buildTests(ctx, tools, everything, filepath.Join(work, "tests")); err != nil {
		return nil, err
	}
	log.Printf("compiled %d packages, and what they need, in %s", len(packages), time.Since(started).Round(time.Second))
	return everything, tools.FetchGraph(ctx, everything.Dir)
}

// buildTests compiles the tests of a program.
func buildTests(ctx context.Context, tools *toolchain.Toolchain, p *program.Program, output string) (*compile.Result, error) {
	packages, err := compile.TestPackages(tools, p)
	if err != nil {
		return nil, err
	}
	result, err := compile.BuildTests(ctx, tools, compile.Options{Program: p, Output: output, Timeout: time.Hour}, packages)
	if err != nil {
		return nil, fmt.Errorf("compiling tests: %w", err)
	}
	return result, nil
}

// write generates the program of a handler that imports packages. Its source has tests inside and
// outside of its package.
func write(dir string, packages []string) (*program.Program, error) {
	var b strings.Builder
	b.WriteString("-- handler.go --\npackage everything\n\nimport (\n\t\"net/http\"\n")
	for _, path := range packages {
		fmt.Fprintf(&b, "\t_ %q\n", path)
	}
	b.WriteString(")\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n")
	for _, pkg := range []string{"everything", "everything_test"} {
		fmt.Fprintf(&b, "-- %s_test.go --\npackage %[1]s\n\nimport \"testing\"\n\nfunc TestHandler(*testing.T) {}\n", pkg)
	}
	src, err := handler.Parse(handler.Filename, []byte(b.String()))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return program.Write(dir, src)
}

// pruneToolchain removes the source files that the compiler does not read.
func pruneToolchain(ctx context.Context, tools *toolchain.Toolchain, everything *program.Program, src string) error {
	inputs, err := tools.Inputs(ctx, everything.Dir, everything.Package())
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, file := range inputs {
		// The executed toolchain may be the one for another architecture.
		if name, err := filepath.Rel(filepath.Join(tools.Root, "src"), file); err == nil && filepath.IsLocal(name) {
			keep[filepath.Join(src, name)] = true
		}
	}
	isInput := func(path string) bool { return keep[path] || isMetadata(path) }
	return errors.Join(prune(src, isInput), prune(tools.Modules, isModuleFile))
}

// writePlan writes the plan with which functions are built without the go command to dir. It
// removes the function that imports all packages from the cache.
func writePlan(ctx context.Context, tools *toolchain.Toolchain, everything *program.Program, dir string) (string, error) {
	plan, err := compile.MakePlan(ctx, tools, everything)
	if err != nil {
		return "", err
	}
	if err := pruneCache(tools.Cache, plan); err != nil {
		return "", err
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "plan.json")
	return file, os.WriteFile(file, data, 0o444)
}

// verify builds the smallest function from only the contents of the directory, with the plan and
// with the go command. Both binaries must be equal. It also compiles its tests.
func verify(ctx context.Context, tools *toolchain.Toolchain) error {
	work, err := os.MkdirTemp("", "goless-kodata-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	smallest, err := write(filepath.Join(work, "smallest"), nil)
	if err != nil {
		return err
	}
	sealed := *tools
	sealed.Network, sealed.Sealed = nil, true
	var binaries [][]byte
	for _, plan := range []string{tools.Plan, ""} {
		sealed.Plan = plan
		output := filepath.Join(work, "server")
		result, err := compile.Build(ctx, &sealed, compile.Options{Program: smallest, Output: output, Timeout: time.Minute, Vet: true})
		if err == nil {
			err = result.VetError
		}
		if err != nil {
			return fmt.Errorf("building a function with it: %w", err)
		}
		log.Printf("a function builds in %s with it", result.Duration.Round(time.Millisecond))
		binary, err := os.ReadFile(output)
		if err != nil {
			return err
		}
		binaries = append(binaries, binary)
	}
	if !bytes.Equal(binaries[0], binaries[1]) {
		return fmt.Errorf("the plan makes another binary than the go command: compare direct.go with what go build -x says for %s", toolchain.Pinned)
	}
	result, err := buildTests(ctx, &sealed, smallest, filepath.Join(work, "tests"))
	if err != nil {
		return fmt.Errorf("with it: %w", err)
	}
	log.Printf("its tests compile in %s with it", result.Duration.Round(time.Millisecond))
	return nil
}
