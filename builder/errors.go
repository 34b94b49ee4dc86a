package builder

import (
	"errors"

	"goless.io/builder/handler"
	"goless.io/builder/internal/compile"
	"goless.io/builder/internal/sandbox"
)

// ReasonOf returns how a build ended whose error is err. It is BuildFailed if the
// author of the source has no part in it.
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

// TooLarge reports whether a build has failed because the program would be too large.
func TooLarge(err error) bool { return errors.Is(err, sandbox.ErrTooLarge) }
