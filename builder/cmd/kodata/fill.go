package main

import (
	"bytes"
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
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/program"
)

// fill makes dir for programs of arch, step by step. Temporary files are in it
// too, but not at the end.
func fill(ctx context.Context, dir, arch string) error {
	machine, err := gotool.Find(ctx, os.Environ())
	if err != nil {
		return err
	}
	work := filepath.Join(dir, "work")
	root, err := install(ctx, dir, work, arch)
	if err != nil {
		return err
	}
	toolchain := &gotool.Toolchain{
		Version: gotool.Pinned,
		Root:    root,
		Cache:   filepath.Join(dir, "cache"),
		Modules: filepath.Join(dir, "mod"),
		Arch:    arch,
		// What the machine has fetched before is not fetched again.
		Network: append(machine.Network, "GOPROXY=file://"+machine.Modules+"/cache/download,"+proxy(machine)),
	}
	everything, err := warm(ctx, toolchain, work)
	if err != nil {
		return err
	}
	if err := pruneToolchain(ctx, toolchain, everything, filepath.Join(dir, "go", "src")); err != nil {
		return err
	}
	if toolchain.Plan, err = writePlan(ctx, toolchain, everything, dir); err != nil {
		return err
	}
	if err := seal(dir); err != nil {
		return err
	}
	if err := prove(ctx, toolchain); err != nil {
		return err
	}
	return os.RemoveAll(work)
}

// install puts the toolchain for arch into dir, and returns the root of one that
// can be executed here. For another architecture than this machine's the second
// compiles the first: Go's own releases are made like that.
func install(ctx context.Context, dir, work, arch string) (root string, err error) {
	log.Printf("downloading %s for linux/%s", gotool.Pinned, runtime.GOARCH)
	source, err := gotool.Download(ctx, os.Environ(), gotool.Pinned, "linux", runtime.GOARCH)
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
	own := &gotool.Toolchain{Version: gotool.Pinned, Root: root, Modules: filepath.Join(work, "mod")}
	return root, own.CompileTools(ctx, arch, foreign, work)
}

// proxy returns the GOPROXY of t, which is the last word about it.
func proxy(t *gotool.Toolchain) string {
	value := "off"
	for _, variable := range t.Network {
		if v, ok := strings.CutPrefix(variable, "GOPROXY="); ok {
			value = v
		}
	}
	return value
}

// warm fills the cache by building a function that imports everything, and
// returns that function.
func warm(ctx context.Context, toolchain *gotool.Toolchain, work string) (*program.Program, error) {
	log.Print("compiling the standard library and the runtime, which takes a minute or two")
	started := time.Now()
	packages, err := toolchain.Importable(ctx)
	if err != nil {
		return nil, err
	}
	packages = append(packages, "goless.io/runtime", "goless.io/runtime/otlp")
	everything, err := write(filepath.Join(work, "everything"), packages)
	if err != nil {
		return nil, err
	}
	_, err = toolchain.Build(ctx, gotool.Build{Program: everything, Output: filepath.Join(work, "server"), Timeout: time.Hour})
	if err != nil {
		return nil, fmt.Errorf("compiling everything: %w", err)
	}
	log.Printf("compiled %d packages, and what they need, in %s", len(packages), time.Since(started).Round(time.Second))
	return everything, toolchain.FetchGraph(ctx, everything.Dir)
}

// write writes the program of a handler that imports packages.
func write(dir string, packages []string) (*program.Program, error) {
	var b strings.Builder
	b.WriteString("package everything\n\nimport (\n\t\"net/http\"\n")
	for _, path := range packages {
		fmt.Fprintf(&b, "\t_ %q\n", path)
	}
	b.WriteString(")\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n")
	h, err := handler.Parse(handler.Filename, []byte(b.String()))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return program.Write(dir, h)
}

// pruneToolchain removes the source files that the compiler does not read.
func pruneToolchain(ctx context.Context, toolchain *gotool.Toolchain, everything *program.Program, src string) error {
	inputs, err := toolchain.Inputs(ctx, everything.Dir)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, file := range inputs {
		// The toolchain that was executed may be that of another architecture.
		if name, err := filepath.Rel(filepath.Join(toolchain.Root, "src"), file); err == nil && filepath.IsLocal(name) {
			keep[filepath.Join(src, name)] = true
		}
	}
	isInput := func(path string) bool { return keep[path] || isKnowledge(path) }
	return errors.Join(prune(src, isInput), prune(toolchain.Modules, isModuleFile))
}

// writePlan writes how the go command builds functions into dir, and forgets the
// function that imports everything.
func writePlan(ctx context.Context, toolchain *gotool.Toolchain, everything *program.Program, dir string) (string, error) {
	plan, err := toolchain.MakePlan(ctx, everything)
	if err != nil {
		return "", err
	}
	if err := pruneCache(toolchain.Cache, plan); err != nil {
		return "", err
	}
	data, err := json.Marshal(plan)
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "plan.json")
	return file, os.WriteFile(file, data, 0o444)
}

// prove builds the smallest function with nothing but what is there: by the plan
// and by the go command, which must come to the same.
func prove(ctx context.Context, toolchain *gotool.Toolchain) error {
	work, err := os.MkdirTemp("", "goless-kodata-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	smallest, err := write(filepath.Join(work, "smallest"), nil)
	if err != nil {
		return err
	}
	var binaries [][]byte
	for _, plan := range []string{toolchain.Plan, ""} {
		sealed := *toolchain
		sealed.Network, sealed.Sealed, sealed.Plan = nil, true, plan
		output := filepath.Join(work, "server")
		result, err := sealed.Build(ctx, gotool.Build{Program: smallest, Output: output, Timeout: time.Minute})
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
		return fmt.Errorf("the plan makes another binary than the go command: compare direct.go with what go build -x says for %s", gotool.Pinned)
	}
	return nil
}
