package gotool

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"goless.io/builder/handler"
)

// flags are what a build is always called with. The ones that change the output
// of the compiler are part of the key of every package in the cache: the cache
// in an image is only worth something to builds with the very same flags.
var flags = []string{"-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags=-s -w -buildid="}

// Recipe identifies how programs are compiled, the toolchain aside. Equal
// programs make equal binaries as long as it is the same.
func Recipe() string {
	return strings.Join(flags, " ")
}

// Build describes one call of the compiler.
type Build struct {
	// Dir holds the program, a Go module with its main package.
	Dir string

	// Package is the path, below the module's, of the one package whose errors
	// are its author's to mend.
	Package string

	// Module is the path of the module.
	Module string

	// Imports are the imports of that package: for the errors that the go
	// command reports without a place.
	Imports []handler.Import

	// Output is the file to write. Its directory must exist.
	Output string

	// Timeout is the longest time that the build may take.
	Timeout time.Duration

	// Trace receives the commands that are executed, unless it is nil.
	Trace io.Writer
}

// Result describes a build that succeeded.
type Result struct {
	// Duration is the time from the start of the go command to its end.
	Duration time.Duration

	// PeakMemory is the largest resident size of one process of the build, in
	// bytes.
	PeakMemory int64
}

// Build compiles a program into a static binary. The error is a *CompileError
// when the author of the package has to act, ErrTimeout, ErrOutOfMemory or
// ErrTooLarge when a limit ended the build, and else not about the program.
func (t *Toolchain) Build(ctx context.Context, b Build) (*Result, error) {
	work, err := os.MkdirTemp("", "goless-work-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the compiler: %w", err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // it is below the temporary directory

	ctx, cancel := context.WithTimeoutCause(ctx, b.Timeout, fmt.Errorf("%w: it was stopped after %s", ErrTimeout, b.Timeout))
	defer cancel()
	box := sandbox{
		Read:  []string{t.Root, t.Cache, t.Modules, b.Dir},
		Write: []string{work, filepath.Dir(b.Output)},
		Open:  !t.Sealed,
	}
	if t.Slow != "" {
		if err := os.MkdirAll(t.Cache, 0o755); err != nil {
			return nil, fmt.Errorf("making a temporary cache: %w", err)
		}
		box.Write = append(box.Write, t.Cache)
	}
	started := time.Now()
	r, err := t.run(ctx, box, b.Dir, work, t.args(b)...)
	took := time.Since(started)
	if b.Trace != nil && r != nil {
		if err := trace(b.Trace, r); err != nil {
			return nil, fmt.Errorf("writing the commands: %w", err)
		}
	}
	switch {
	case err == nil:
		return &Result{Duration: took, PeakMemory: r.peakMemory()}, nil
	case r == nil || r.state == nil || ctx.Err() != nil:
		return nil, err
	default:
		return nil, t.explain(b, r)
	}
}

func (t *Toolchain) args(b Build) []string {
	args := append([]string{"build", "-json", "-o", b.Output}, flags...)
	// All errors of the author's package, not the first ten. Only that package
	// has the flag, so no other is compiled anew because of it.
	args = append(args, "-gcflags="+b.Module+"/"+b.Package+"=-e")
	if b.Trace != nil {
		args = append(args, "-x")
	}
	return append(args, ".")
}
