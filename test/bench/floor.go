package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// A floor is the minimum of a build: only the calls of the compiler and of the linker, as the
// go command prints them.
type floor struct {
	dir, script string
	work        string
}

// newFloor gets the commands that build the smallest function from the go command of the image.
func newFloor(ctx context.Context, b *builds) (*floor, error) {
	file, dir := filepath.Join(b.scratch, "floor.go"), filepath.Join(b.scratch, "floor")
	if err := os.WriteFile(file, []byte(constant("floor")), 0o644); err != nil {
		return nil, err
	}
	generate := exec.CommandContext(ctx, b.command, "generate", file, dir)
	if out, err := generate.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("generating a program: %w\n%s", err, out)
	}
	// Nothing must be added to the cache of the image, where the next run would find it.
	cache := filepath.Join(b.scratch, "cache")
	if err := os.CopyFS(cache, os.DirFS(filepath.Join(b.kodata(), "cache"))); err != nil {
		return nil, err
	}
	root := filepath.Join(b.kodata(), "go")
	cmd := exec.CommandContext(ctx, filepath.Join(root, "bin", "go"), "build", "-x", "-work", "-o", "server", "-trimpath", "-buildvcs=false",
		"-mod=readonly", "-gcflags=all=-dwarf=false", "-ldflags=-s -w -buildid=", ".")
	cmd.Dir = dir
	cmd.Env = []string{
		"GOROOT=" + root, "GOCACHE=" + cache, "GOMODCACHE=" + filepath.Join(b.kodata(), "mod"), "GOPATH=" + b.scratch, "HOME=" + b.scratch,
		"TMPDIR=" + b.scratch, "CGO_ENABLED=0", "GOENV=off", "GOFLAGS=", "GOPROXY=off", "GOTOOLCHAIN=local", "GOWORK=off", "GODEBUG=goindex=0",
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("building a program: %w\n%s", err, out)
	}
	f := &floor{dir: dir}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if work, ok := strings.CutPrefix(line, "WORK="); ok {
			f.work = work
		}
		if tools := filepath.Join(root, "pkg", "tool", "linux_"+runtime.GOARCH); strings.Contains(line, tools+"/compile -o ") || strings.Contains(line, tools+"/link -o ") {
			f.script += line + "\n"
		}
	}
	if calls := strings.Count(f.script, "\n"); calls != 3 {
		return nil, fmt.Errorf("a warm build makes %d calls of the compiler and the linker, want 3: run make kodata\n%s", calls, f.script)
	}
	return f, nil
}

// sample returns the duration of the calls in seconds.
func (f *floor) sample(ctx context.Context) (float64, error) {
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", f.script)
	cmd.Dir = f.dir
	cmd.Env = []string{"WORK=" + f.work, "TMPDIR=" + f.work}
	started := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("calling the compiler and the linker: %w\n%s", err, out)
	}
	return time.Since(started).Seconds(), nil
}

// A goBuild builds the program of a function with five modules with the go command, as on a
// developer's machine: the caches are warm, and only the handler has changed.
type goBuild struct {
	*builds
	command []string
	dir     string
	environ []string
	changes int
}

func newGoBuild(ctx context.Context, b *builds) (*goBuild, error) {
	archive, err := b.archive("")
	if err != nil {
		return nil, err
	}
	file, root := filepath.Join(b.scratch, "gobuild.txtar"), filepath.Join(b.kodata(), "go")
	g := &goBuild{builds: b, dir: filepath.Join(b.scratch, "gobuild"), command: []string{
		filepath.Join(root, "bin", "go"), "build", "-o", filepath.Join(b.scratch, "gobuild.bin"), "-trimpath", "-buildvcs=false",
		"-mod=readonly", "-gcflags=all=-dwarf=false", "-ldflags=-s -w -buildid=", ".",
	}}
	if err := os.WriteFile(file, archive, 0o644); err != nil {
		return nil, err
	}
	generate := exec.CommandContext(ctx, b.command, "generate", file, g.dir)
	if out, err := generate.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("generating a program: %w\n%s", err, out)
	}
	// The first build downloads the modules that the runtime requires.
	g.environ = append(os.Environ(), "GOROOT="+root, "GOCACHE="+filepath.Join(b.scratch, "gobuild-cache"), "CGO_ENABLED=0", "GOENV=off", "GOFLAGS=", "GOTOOLCHAIN=local", "GOWORK=off")
	_, err = g.sample(ctx)
	return g, err
}

// sample returns the duration of a build in seconds, after a change of the handler.
func (g *goBuild) sample(ctx context.Context) (float64, error) {
	file := filepath.Join(g.dir, "handler", "handler.go")
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	g.changes++
	if err := os.WriteFile(file, fmt.Appendf(text, "\n// Change %d.\n", g.changes), 0o644); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, g.command[0], g.command[1:]...)
	cmd.Dir, cmd.Env = g.dir, g.environ
	started := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building a program with modules: %w\n%s", err, out)
	}
	return time.Since(started).Seconds(), nil
}
