package builder

import (
	"errors"
	"fmt"
	"strings"

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
		diagnostics := compile.Diagnostics
		if compile.Internal {
			diagnostics = blameGo(diagnostics)
		}
		return &SourceError{Reason: CompileFailed, Diagnostics: diagnostics, Omitted: compile.Omitted, cause: err}
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

// blameGo says of the failures of the compiler among all whose they are. They are
// told like a compile error: trying again does not help, and neither do we, but
// the author may get around them.
func blameGo(all []handler.Diagnostic) []handler.Diagnostic {
	told := make([]handler.Diagnostic, 0, len(all))
	for _, d := range all {
		if reason, internal := strings.CutPrefix(d.Message, "internal compiler error: "); internal {
			d = handler.NewDiagnostic(d.File, d.Line, d.Column, "the compiler failed here, which is a bug of Go and not of the function; written in another way it may compile: "+reason)
		}
		told = append(told, d)
	}
	return told
}
