package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// measureBuild measures the builder with the contents of its image: the build of the smallest
// function compared with its floor, one with dependencies, the validation of sources, and a
// reload.
func measureBuild(ctx context.Context, s *session) error {
	s.step(ctx, "the verdict on sources", []string{"validate.10k", "validate.max"}, func(context.Context) error { return measureValidate(s) })
	if _, err := os.Stat(filepath.Join(s.kodata(), "plan.json")); err != nil {
		return fmt.Errorf("there is nothing to build with, run make kodata: %w", err)
	}
	b, err := newBuilds(ctx, s)
	if err != nil {
		return err
	}
	s.step(ctx, "reload", []string{"run.reload"}, func(ctx context.Context) error { return measureReload(ctx, b) })
	s.progress.begin("build")
	floor, noFloor := newFloor(ctx, b)
	plain, noPlain := newGoBuild(ctx, b)
	service, noService := newService(ctx, b)
	if noService == nil {
		defer service.stop()
		_, noService = service.again(ctx) // the first one caches its dependencies
	}
	for name, samples := range s.measure(ctx, map[string]func(context.Context) (float64, error){
		"build.warm":               b.hello,
		"build.floor":              unless(noFloor, floor.sample),
		"build.dependencies":       b.dependencies,
		"build.dependencies_go":    unless(noPlain, plain.sample),
		"build.dependencies_first": unless(noService, service.first),
		"build.dependencies_again": unless(noService, service.again),
	}) {
		s.results.add(name, median(samples), "s", len(samples))
	}
	s.results.ratio("build.warm", "build.floor")
	s.results.ratio("build.dependencies_again", "build.dependencies_go")
	if b.builds > 0 {
		s.results.add("build.heap", b.heap, "MiB", b.builds)
		s.results.add("build.memory", b.memory, "MiB", b.builds)
	}
	return nil
}

// builds runs the builder as in a pod.
type builds struct {
	*session
	command string
	environ []string
	modules string // the directory of a file: proxy

	builds int
	heap   float64 // the largest of the builder, in MiB
	memory float64 // the largest of the compiler, in MiB
}

func newBuilds(ctx context.Context, s *session) (*builds, error) {
	command, err := s.builder(ctx)
	if err != nil {
		return nil, err
	}
	modules := filepath.Join(s.root, "test", "e2e", "testdata", "dependencies")
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json")
	download.Dir = modules
	download.Env = append(os.Environ(), "GOWORK=off")
	if out, err := download.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("downloading the modules of %s: %w\n%s", modules, err, out)
	}
	cache, err := exec.CommandContext(ctx, "go", "env", "GOMODCACHE").Output()
	if err != nil {
		return nil, err
	}
	served := filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")
	// The garbage collector of the builder logs the size of its heap. The variable is not
	// passed to the compiler.
	environ := append(s.environ(), "GOPROXY=file://"+served, "GODEBUG=gctrace=1")
	return &builds{session: s, command: command, environ: environ, modules: served}, nil
}

// hello builds a function of a few lines.
func (b *builds) hello(ctx context.Context) (float64, error) {
	return b.build(ctx, "hello.go", []byte(unique(b.builds, "warm")))
}

// dependencies builds a function with five modules from a proxy.
func (b *builds) dependencies(ctx context.Context) (float64, error) {
	archive, err := b.archive("")
	if err != nil {
		return 0, err
	}
	return b.build(ctx, "dependencies.txtar", archive)
}

// archive returns the source of a function with five modules, with end appended.
func (b *builds) archive(end string) ([]byte, error) {
	var archive bytes.Buffer
	for _, name := range []string{"go.mod", "go.sum", "handler.go"} {
		data, err := os.ReadFile(filepath.Join(b.root, "test", "e2e", "testdata", "dependencies", name))
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&archive, "-- %s --\n%s", name, data)
	}
	return append(archive.Bytes(), end...), nil
}

var (
	compilerMemory = regexp.MustCompile(`the compiler used (\d+) MiB`)
	collection     = regexp.MustCompile(`(?m)^gc \d+ .* (\d+)->(\d+)->\d+ MB,`)
)

// build returns the duration in seconds from the start of the builder to its exit.
func (b *builds) build(ctx context.Context, name string, src []byte) (float64, error) {
	file := filepath.Join(b.scratch, name)
	if err := os.WriteFile(file, src, 0o644); err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, b.command, "build", "--output-binary", filepath.Join(b.scratch, "server"), file)
	cmd.Env = b.environ
	started := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(started)
	if err != nil {
		return 0, fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	b.builds++
	b.memory = max(b.memory, largest(compilerMemory, out))
	b.heap = max(b.heap, largest(collection, out), 4) // there is no collection below 4 MiB
	return took.Seconds(), nil
}

// largest returns the maximum of the numbers that a group of pattern matches.
func largest(pattern *regexp.Regexp, text []byte) (most float64) {
	for _, match := range pattern.FindAllSubmatch(text, -1) {
		for _, number := range match[1:] {
			value, _ := strconv.ParseFloat(string(number), 64) // digits
			most = max(most, value)
		}
	}
	return most
}
