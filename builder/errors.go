package builder

import (
	"errors"

	"goless.io/builder/handler"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/sandbox"
)

// ReasonOf returns the reason for err, the error of a build. It is BuildFailed if the source did
// not cause the error.
func ReasonOf(err error) Reason {
	mistakes, ok := errors.AsType[*handler.Error](err)
	switch {
	case err == nil:
		return Built
	case ok && !mistakes.Compiled:
		return InvalidSource
	case ok, TooLarge(err):
		return CompileFailed
	case errors.Is(err, compile.ErrTimeout):
		return BuildTimeout
	case errors.Is(err, sandbox.ErrOutOfMemory):
		return BuildOutOfMemory
	}
	return BuildFailed
}

// TooLarge reports whether a build failed because the program is too large.
func TooLarge(err error) bool { return errors.Is(err, sandbox.ErrTooLarge) }
