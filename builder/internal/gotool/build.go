package gotool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/program"
)

// flags are what a build is always called with. The ones that change the output
// of the compiler are part of the key of every package in the cache: the cache
// in an image is only worth something to builds with the very same flags.
var flags = []string{"-trimpath", "-buildvcs=false", "-mod=readonly", "-gcflags=all=" + noDebug, "-ldflags=-s -w -buildid="}

// noDebug makes a quarter less of the cache: the linker drops what debuggers
// need, so the compiler need not write it.
const noDebug = "-dwarf=false"

// Recipe identifies how programs are compiled, the toolchain aside. Equal
// programs make equal binaries as long as it is the same.
func Recipe() string {
	return strings.Join(flags, " ")
}

// Build describes one call of the compiler.
type Build struct {
	// Program is what to compile. What it needs has been fetched.
	Program *program.Program

	// Output is the file to write. Its directory must exist.
	Output string

	// Timeout is the longest time that the build may take.
	Timeout time.Duration

	// Memory bounds what the processes of the build use together, in bytes. 0
	// leaves it to the container.
	Memory int64

	// Compiled is called when only the linker is left, unless it is nil. Builds
	// that the go command does never call it.
	Compiled func()

	// Trace receives the commands that are executed, unless it is nil.
	Trace io.Writer

	// Vet asks for Warnings, which never fail a build and hardly delay it.
	Vet bool

	patience time.Duration // for the Warnings, 0 means a grace
}

// Result describes a build that succeeded.
type Result struct {
	// Duration is the time from the start of the go command to its end.
	Duration time.Duration

	// PeakMemory is the largest resident size of one process of the build, in
	// bytes.
	PeakMemory int64

	// Warnings are what go vet finds, nil when it did not finish in time.
	Warnings []handler.Diagnostic

	vetErr error // why there are no Warnings
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
		Read:  []string{t.Root, t.Cache, t.Modules, b.Program.Dir},
		Write: []string{work, filepath.Dir(b.Output)},
		Open:  !t.Sealed,

		Memory: uint64(max(b.Memory, 0)),
	}
	if t.Slow != "" {
		if err := os.MkdirAll(t.Cache, 0o755); err != nil {
			return nil, fmt.Errorf("making a temporary cache: %w", err)
		}
		box.Write = append(box.Write, t.Cache)
	}
	started := time.Now()
	r, a, err := t.compile(ctx, b, work, command{
		box: box,
		dir: b.Program.Dir,
		env: t.environ(work, t.modules(b.Program), !t.Sealed),
	})
	took := time.Since(started)
	switch {
	case err == nil:
		warnings, vetErr := a.wait(cmp.Or(b.patience, max(vetGrace, took/4)))
		return &Result{Duration: took, PeakMemory: r.peakMemory(), Warnings: warnings, vetErr: vetErr}, nil
	case r == nil || r.state == nil || ctx.Err() != nil:
		return nil, err
	default:
		return nil, t.explain(b.Program, r)
	}
}

// compile calls the compiler and the linker directly where that is possible.
// Otherwise, or when that fails, the go command does. The analysis is nil unless
// there is a binary and b asks for it.
func (t *Toolchain) compile(ctx context.Context, b Build, work string, c command) (*result, *analysis, error) {
	if d := t.direct(b, work); d != nil {
		a := t.analyse(ctx, b, work, d.packages)
		r, err := d.run(ctx, c)
		if err == nil {
			return r, a, nil
		}
		a.end()
		if ctx.Err() != nil || r != nil && r.state != nil && isLimit(t.explain(b.Program, r)) {
			return r, nil, err
		}
	}
	c.args = t.args(b)
	r, err := t.run(ctx, c)
	if b.Trace != nil && r != nil {
		if err := trace(b.Trace, r); err != nil {
			return nil, nil, fmt.Errorf("writing the commands: %w", err)
		}
	}
	if err != nil || !b.Vet {
		return r, nil, err
	}
	link, err := readLinkConfig(work)
	if err != nil {
		return nil, nil, err
	}
	return r, t.analyse(ctx, b, work, link.packages), nil
}

// isLimit reports whether building again would only end in the same way.
func isLimit(err error) bool { return errors.Is(err, ErrOutOfMemory) || errors.Is(err, ErrTooLarge) }

func (t *Toolchain) args(b Build) []string {
	args := append([]string{t.command(), "build", "-json", "-o", b.Output}, flags...)
	// All errors of the author's packages, not the first ten. Only they have the
	// flag, so no other is compiled anew because of it.
	args = append(args, "-gcflags="+b.Program.Path+"/...=-e "+noDebug)
	if b.Trace != nil {
		args = append(args, "-x")
	}
	if b.Vet {
		args = append(args, "-work") // what was compiled is still needed
	}
	return append(args, ".")
}
