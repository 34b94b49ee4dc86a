package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// helloSource has the handler of ./bare.
const helloSource = `package handlers

import "net/http"

func Handler(w http.ResponseWriter, _ *http.Request) {
	w.Write([]byte("hello"))
}
`

// measureRuntime measures the cost of goless.io/runtime: of the middlewares around a minimal
// handler, without the network; and of a program from the builder, compared with a bare server
// of net/http.
func measureRuntime(ctx context.Context, s *session) error {
	s.step(ctx, "the middlewares", []string{"runtime.overhead_ns", "runtime.naive_ns", "runtime.allocs"},
		func(ctx context.Context) error { return measureMiddlewares(ctx, s) })
	s.step(ctx, "the programs", []string{"runtime.binary_mib", "runtime.start_ms", "runtime.rss_mib", "runtime.rps", "runtime.rps_ratio", "runtime.rps_usual", "runtime.p99_ms", "runtime.p99_delta_ms", "runtime.cpu_us"},
		func(ctx context.Context) error { return measurePrograms(ctx, s) })
	return nil
}

// measurePrograms measures a Function as a program.
func measurePrograms(ctx context.Context, s *session) error {
	function, bare, err := buildServers(ctx, s)
	if err != nil {
		return err
	}
	info, err := os.Stat(function)
	if err != nil {
		return err
	}
	s.results.add("runtime.binary_mib", mebibytes(info.Size()), "MiB", 1)
	s.step(ctx, "the start of a function", []string{"runtime.start_ms", "runtime.rss_mib"},
		func(ctx context.Context) error { return measureStart(ctx, s, function) })
	return measureLoad(ctx, s, function, bare)
}

// buildServers compiles the Function with the builder, and the bare server with the same
// toolchain.
func buildServers(ctx context.Context, s *session) (function, bare string, err error) {
	builder, err := s.builder(ctx)
	if err != nil {
		return "", "", err
	}
	source := filepath.Join(s.scratch, "handler.go")
	if err := os.WriteFile(source, []byte(helloSource), 0o600); err != nil {
		return "", "", err
	}
	function = filepath.Join(s.scratch, "function")
	cmd := exec.CommandContext(ctx, builder, "build", "--output-binary", function, source)
	cmd.Env = s.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building the Function: %w\n%s", err, out)
	}
	bare = filepath.Join(s.scratch, "bare")
	cmd = exec.CommandContext(ctx, s.functionGo(), "build", "-trimpath", "-ldflags=-s -w", "-o", bare, "./bench/bare")
	cmd.Dir = filepath.Join(s.root, "test")
	cmd.Env = append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOTOOLCHAIN=local")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("compiling the bare server: %w\n%s", err, out)
	}
	return function, bare, nil
}

// functionGo returns the go command that compiles Functions.
func (s *session) functionGo() string {
	inImage := filepath.Join(s.kodata(), "go", "bin", "go")
	if _, err := os.Stat(inImage); err == nil {
		return inImage
	}
	return "go"
}

func mebibytes(bytes int64) float64 { return float64(bytes) / (1 << 20) }
