// Package builder owns the sequence that turns the source of a Function into a
// static binary: verify, write the program around it, compile. It refuses to
// know who asks for that and where the source comes from: a container that
// builds, a person at a terminal and a service that builds for many do the same.
package builder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"goless.io/builder/handler"
	"goless.io/builder/internal/gotool"
	"goless.io/builder/internal/program"
)

// DefaultTimeout is the time in which any reasonable source compiles, with a
// cold cache on a slow machine too.
const DefaultTimeout = 60 * time.Second

// Builder builds Functions.
type Builder struct {
	// Toolchain compiles. It is required.
	Toolchain *gotool.Toolchain

	// Timeout is the longest time that the compiler may take. 0 means
	// DefaultTimeout.
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
	if b.Timeout == 0 {
		return DefaultTimeout
	}
	return b.Timeout
}

// Fingerprint identifies everything that decides how a source becomes a binary.
// Equal sources have equal outcomes as long as it is the same, limits aside.
func (b *Builder) Fingerprint() string {
	return b.Toolchain.Version + " " + gotool.Recipe() + " " + program.Fingerprint()
}

// SourceError says that a source cannot be built as it is. Its author has to
// act.
type SourceError struct {
	// Reason is InvalidSource, CompileFailed, BuildTimeout or BuildOutOfMemory.
	Reason Reason

	// Diagnostics say where and why. There are none when a limit ended the
	// build.
	Diagnostics []handler.Diagnostic

	// Omitted counts the diagnostics that were left out.
	Omitted int

	cause error
}

// Error says what the first diagnostic does, and how many there are.
func (e *SourceError) Error() string {
	if len(e.Diagnostics) == 0 {
		return e.cause.Error()
	}
	first := e.Diagnostics[0].String()
	if more := len(e.Diagnostics) - 1 + e.Omitted; more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}

// Unwrap returns what the step that failed has reported.
func (e *SourceError) Unwrap() error { return e.cause }

// TooLarge reports whether the binary would be too large, which has no Reason of
// its own.
func (e *SourceError) TooLarge() bool { return errors.Is(e.cause, gotool.ErrTooLarge) }

// sourceError makes a *SourceError of an error that is about the source, and
// returns any other as it is.
func sourceError(err error) error {
	var invalid *handler.Error
	var compile *gotool.CompileError
	switch {
	case errors.As(err, &invalid):
		return &SourceError{Reason: InvalidSource, Diagnostics: invalid.Diagnostics, Omitted: invalid.Omitted, cause: err}
	case errors.As(err, &compile):
		return &SourceError{Reason: CompileFailed, Diagnostics: compile.Diagnostics, Omitted: compile.Omitted, cause: err}
	case errors.Is(err, gotool.ErrTooLarge):
		return &SourceError{Reason: CompileFailed, cause: err}
	case errors.Is(err, gotool.ErrTimeout):
		return &SourceError{Reason: BuildTimeout, cause: err}
	case errors.Is(err, gotool.ErrOutOfMemory):
		return &SourceError{Reason: BuildOutOfMemory, cause: err}
	}
	return err
}
