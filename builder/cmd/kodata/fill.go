package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"goless.io/builder"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/program"
)

// fill makes dir, step by step.
func fill(ctx context.Context, dir string) error {
	machine, err := gotool.Find(ctx, os.Environ())
	if err != nil {
		return err
	}
	toolchain := &gotool.Toolchain{
		Version: gotool.Pinned,
		Root:    filepath.Join(dir, "go"),
		Cache:   filepath.Join(dir, "cache"),
		Modules: filepath.Join(dir, "mod"),
		// What the machine has fetched before is not fetched again.
		Network: append(machine.Network, "GOPROXY=file://"+machine.Modules+"/cache/download,"+proxy(machine)),
	}
	log.Printf("downloading %s for linux/%s", gotool.Pinned, runtime.GOARCH)
	source, err := gotool.Download(ctx, os.Environ(), gotool.Pinned, "linux", runtime.GOARCH)
	if err != nil {
		return err
	}
	if err := copyToolchain(source, toolchain.Root); err != nil {
		return fmt.Errorf("copying the toolchain: %w", err)
	}
	if err := warm(ctx, toolchain); err != nil {
		return err
	}
	if err := seal(dir); err != nil {
		return err
	}
	return prove(ctx, toolchain)
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

// warm fills the cache by building a function that imports everything, and then
// removes the source files that this did not need.
func warm(ctx context.Context, toolchain *gotool.Toolchain) error {
	log.Print("compiling the standard library and the runtime, which takes a minute or two")
	started := time.Now()
	packages, err := toolchain.Importable(ctx)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "goless-kodata-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	dir := filepath.Join(work, "program")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := program.Write(dir, everything(packages)); err != nil {
		return err
	}
	_, err = toolchain.Build(ctx, gotool.Build{
		Dir:     dir,
		Module:  program.Module,
		Package: program.HandlerDir,
		Output:  filepath.Join(work, "server"),
		Timeout: time.Hour,
	})
	if err != nil {
		return fmt.Errorf("compiling everything: %w", err)
	}
	log.Printf("compiled %d packages of the standard library, and what they need, in %s", len(packages), time.Since(started).Round(time.Second))
	if err := toolchain.FetchGraph(ctx, dir); err != nil {
		return err
	}
	inputs, err := toolchain.Inputs(ctx, dir)
	if err != nil {
		return err
	}
	return prune(inputs, filepath.Join(toolchain.Root, "src"), toolchain.Modules)
}

// everything returns the source of a handler that imports all packages.
func everything(packages []string) []byte {
	var b strings.Builder
	b.WriteString("package everything\n\nimport (\n\t\"net/http\"\n")
	for _, path := range packages {
		fmt.Fprintf(&b, "\t_ %q\n", path)
	}
	b.WriteString(")\n\nfunc Handler(http.ResponseWriter, *http.Request) {}\n")
	return []byte(b.String())
}

// prove builds the smallest function with nothing but the directory.
func prove(ctx context.Context, toolchain *gotool.Toolchain) error {
	sealed := *toolchain
	sealed.Network, sealed.Sealed = nil, true
	work, err := os.MkdirTemp("", "goless-kodata-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory
	b := &builder.Builder{Toolchain: &sealed}
	result, err := b.Build(ctx, everything(nil), filepath.Join(work, "server"))
	if err != nil {
		return fmt.Errorf("building a function with it: %w", err)
	}
	log.Printf("a function builds in %s with it", result.Duration.Round(time.Millisecond))
	return nil
}
