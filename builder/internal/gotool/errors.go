package gotool

import (
	"errors"
	"fmt"

	"goless.io/builder/handler"
)

// The limits that end a build. They are about the program more often than about
// the machine, but nobody can tell.
var (
	// ErrTimeout says that the compiler was stopped because it took too long.
	ErrTimeout = errors.New("the compiler took too long")

	// ErrOutOfMemory says that the compiler was killed, which the kernel does
	// when a container is out of memory.
	ErrOutOfMemory = errors.New("the compiler ran out of memory: make the source simpler, large constants and deeply nested types before all")

	// ErrFetch says that modules could not be fetched, for a reason that the
	// author of the source has no part in. It may work later.
	ErrFetch = errors.New("fetching modules failed")

	// ErrTooLarge says that a file of the build grew beyond MaxFileSize.
	ErrTooLarge = fmt.Errorf("the program is larger than %d MiB", MaxFileSize>>20)
)

// maxDiagnostics is what somebody can work through before building again.
const maxDiagnostics = 100

// CompileError says that a package does not compile, and why. Its author has to
// act.
type CompileError struct {
	// Diagnostics are in the order of the compiler, which is mostly by place.
	// There is at least one and at most a hundred.
	Diagnostics []handler.Diagnostic

	// Omitted counts the diagnostics that were left out.
	Omitted int

	// Internal means that the compiler failed where it should have reported an
	// error: the source may be right.
	Internal bool
}

// compileError returns a *CompileError with as many of all as it takes.
func compileError(all []handler.Diagnostic, internal bool) error {
	kept := min(len(all), maxDiagnostics)
	return &CompileError{Diagnostics: all[:kept], Omitted: len(all) - kept, Internal: internal}
}

// Error renders the first diagnostic and the number of the others.
func (e *CompileError) Error() string {
	first := e.Diagnostics[0].String()
	if more := len(e.Diagnostics) - 1 + e.Omitted; more > 0 {
		return fmt.Sprintf("%s (and %d more)", first, more)
	}
	return first
}
