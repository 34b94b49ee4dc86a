// Package builder owns the sequence that turns the source of a Function into a
// static binary: verify, write the program around it, fetch what it requires,
// compile. It refuses to know who asks for that and where the source comes from:
// a container that builds, a person at a terminal and a service that builds for
// many do the same.
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

	// Timeout is the longest time that a build may take, modules fetched and
	// compiled, at most half of it for fetching. 0 means DefaultTimeout, or
	// SlowTimeout with a toolchain that is slow.
	Timeout time.Duration

	// Memory bounds what the processes of a build use together, in bytes. 0 leaves
	// it to the container, which is right as long as it has nothing else to do.
	Memory int64

	// Compiled is called as soon as nothing but linking is left, unless it is nil:
	// the source compiles. Builds that are not of the common kind never call it.
	Compiled func()

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

	// Warnings are what go vet has found in the time that it had, by place. They
	// are in the author's files.
	Warnings []handler.Diagnostic
}

// Build compiles src and writes the binary to the file output, whose directory
// must exist, by its absolute path; what was there before is replaced once the
// build has succeeded. The error is a *SourceError when the source is at fault,
// and any other when the builder is, or what it fetches modules from, or when
// ctx ends. Places are in the author's files, which are handler.Filename alone
// unless src is an archive.
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
	written, err := program.Write(dir, parsed)
	if err != nil {
		return nil, err
	}
	compiled, err := b.make(ctx, written, output)
	if err != nil {
		return nil, sourceError(err)
	}
	return &Result{Duration: time.Since(started), PeakMemory: compiled.PeakMemory, Warnings: compiled.Warnings}, nil
}

// make puts the binary in its place when it is complete, and never before.
func (b *Builder) make(ctx context.Context, written *program.Program, output string) (*gotool.Result, error) {
	started := time.Now()
	if err := b.Toolchain.Fetch(ctx, gotool.Fetch{Program: written, Timeout: b.timeout() / 2, Memory: b.Memory, Trace: b.Trace}); err != nil {
		return nil, err
	}
	unfinished := output + ".unfinished"
	defer os.Remove(unfinished) //nolint:errcheck // it is gone when all went well
	result, err := b.Toolchain.Build(ctx, gotool.Build{
		Program:  written,
		Output:   unfinished,
		Timeout:  b.timeout() - time.Since(started).Truncate(time.Second),
		Memory:   b.Memory,
		Compiled: b.Compiled,
		Trace:    b.Trace,
		Vet:      true,
	})
	if err != nil {
		return nil, err
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
	case b.Toolchain.Slow != "" || !b.Toolchain.Sealed: // nobody knows what is in the cache of a machine
		return SlowTimeout
	}
	return DefaultTimeout
}

// Fingerprint identifies everything that decides how a source becomes a binary.
// Equal sources have equal outcomes as long as it is the same, limits aside.
func (b *Builder) Fingerprint() string {
	return b.Toolchain.Version + " " + gotool.Recipe() + " " + program.Fingerprint()
}
