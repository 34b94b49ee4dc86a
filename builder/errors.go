package builder

import (
	"errors"
	"fmt"

	"goless.io/builder/handler"
	"goless.io/builder/internal/gotool"
)

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
	if invalid, ok := errors.AsType[*handler.Error](err); ok {
		return &SourceError{Reason: InvalidSource, Diagnostics: invalid.Diagnostics, Omitted: invalid.Omitted, cause: err}
	}
	if compile, ok := errors.AsType[*gotool.CompileError](err); ok {
		return &SourceError{Reason: CompileFailed, Diagnostics: compile.Diagnostics, Omitted: compile.Omitted, cause: err}
	}
	switch {
	case errors.Is(err, gotool.ErrTooLarge):
		return &SourceError{Reason: CompileFailed, cause: err}
	case errors.Is(err, gotool.ErrTimeout):
		return &SourceError{Reason: BuildTimeout, cause: err}
	case errors.Is(err, gotool.ErrOutOfMemory):
		return &SourceError{Reason: BuildOutOfMemory, cause: err}
	}
	return err
}
