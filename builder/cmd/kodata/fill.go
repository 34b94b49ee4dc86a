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

// fill makes dir for programs of arch, step by step. Temporary files are in it
// too, but not at the end.
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
		// What the machine has fetched before is not fetched again.
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
	// Without this file, which has the time of today, the go command would have removed
	// from the cache what is as old as seal has made it.
	if err := os.Remove(filepath.Join(tools.Cache, "trim.txt")); err != nil {
		return err
	}
	return os.RemoveAll(work)
}

// install puts the toolchain for arch into dir, and returns the root of one that
// can be executed here. For another architecture than this machine's the second
// compiles the first: Go's own releases are made like that.
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

// warm fills the cache by building a function that imports everything, and
// returns that function.
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
	log.Printf("compiled %d packages, and what they need, in %s", len(packages), time.Since(started).Round(time.Second))
	return everything, tools.FetchGraph(ctx, everything.Dir)
}

// write writes the program of a handler that imports packages.
func write(dir string, packages []string) (*program.Program, error) {
	var b strings.Builder
	b.WriteString("package everything\n\nimport (\n\t\"net/http\"\n")
	for _, path := range packages {
		fmt.Fprintf(&b, "\t_ %q\n", path)
	}
	b.WriteString(")\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n")
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
	inputs, err := tools.Inputs(ctx, everything.Dir)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, file := range inputs {
		// The toolchain that was executed may be that of another architecture.
		if name, err := filepath.Rel(filepath.Join(tools.Root, "src"), file); err == nil && filepath.IsLocal(name) {
			keep[filepath.Join(src, name)] = true
		}
	}
	isInput := func(path string) bool { return keep[path] || isMetadata(path) }
	return errors.Join(prune(src, isInput), prune(tools.Modules, isModuleFile))
}

// writePlan writes how the go command builds functions into dir, and forgets the
// function that imports everything.
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

// verify builds the smallest function with nothing but what is there: by the plan
// and by the go command, which must come to the same.
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
	var binaries [][]byte
	for _, plan := range []string{tools.Plan, ""} {
		sealed := *tools
		sealed.Network, sealed.Sealed, sealed.Plan = nil, true, plan
		output := filepath.Join(work, "server")
		result, err := compile.Build(ctx, &sealed, compile.Options{Program: smallest, Output: output, Timeout: time.Minute, Vet: true})
		if err == nil {
			err = result.Unvetted
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
	return nil
}
