// Package builder owns the sequence that turns the source of a Function into a
// static binary: verify, write the program around it, compile. It refuses to
// know who asks for that and where the source comes from: a container that
// builds, a person at a terminal and a service that builds for many do the same.
package builder

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/program"
)

const (
	// DefaultTimeout is the time in which any reasonable source compiles, on a
	// slow machine too.
	DefaultTimeout = 60 * time.Second

	// SlowTimeout takes its place where the standard library has to be compiled
	// first.
	SlowTimeout = 5 * time.Minute
)

// Builder builds Functions.
type Builder struct {
	// Toolchain compiles. It is required.
	Toolchain *gotool.Toolchain

	// Timeout is the longest time that the compiler may take. 0 means
	// DefaultTimeout, or SlowTimeout with a toolchain that is slow.
	Timeout time.Duration

	// Trace receives the commands that are executed, unless it is nil.
	Trace io.Writer
}

// Result describes a binary that was built.
type Result struct {
	// Duration is the time that the build took, from source to binary.
	Duration time.Duration

	// PeakMemory is the largest resident size of one process of the compiler, in
	// bytes.
	PeakMemory int64
}

// Build compiles src and writes the binary to the file output, whose directory
// must exist, by its absolute path; what was there before is replaced once the build has succeeded.
// The error is a *SourceError when the source is at fault, in the lines of
// handler.Filename, and any other when the builder is or when ctx ends.
func (b *Builder) Build(ctx context.Context, src []byte, output string) (*Result, error) {
	started := time.Now()
	parsed, err := handler.Parse(handler.Filename, src)
	if err != nil {
		return nil, sourceError(err)
	}
	dir, err := os.MkdirTemp("", "goless-program-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the program: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // it is below the temporary directory
	if err := program.Write(dir, src); err != nil {
		return nil, err
	}
	compiled, err := b.compile(ctx, dir, parsed, output)
	if err != nil {
		return nil, err
	}
	return &Result{Duration: time.Since(started), PeakMemory: compiled.PeakMemory}, nil
}

// compile puts the binary in its place when it is complete, and never before.
func (b *Builder) compile(ctx context.Context, dir string, parsed *handler.Handler, output string) (*gotool.Result, error) {
	unfinished := output + ".unfinished"
	defer os.Remove(unfinished) //nolint:errcheck // it is gone when all went well
	result, err := b.Toolchain.Build(ctx, gotool.Build{
		Dir:     dir,
		Module:  program.Module,
		Package: program.HandlerDir,
		Imports: parsed.Imports,
		Output:  unfinished,
		Timeout: b.timeout(),
		Trace:   b.Trace,
	})
	if err != nil {
		return nil, sourceError(err)
	}
	if err := os.Rename(unfinished, output); err != nil {
		return nil, fmt.Errorf("putting the binary in its place: %w", err)
	}
	return result, nil
}

func (b *Builder) timeout() time.Duration {
	switch {
	case b.Timeout != 0:
		return b.Timeout
	case b.Toolchain.Slow != "":
		return SlowTimeout
	}
	return DefaultTimeout
}

// Fingerprint identifies everything that decides how a source becomes a binary.
// Equal sources have equal outcomes as long as it is the same, limits aside.
func (b *Builder) Fingerprint() string {
	return b.Toolchain.Version + " " + gotool.Recipe() + " " + program.Fingerprint()
}
