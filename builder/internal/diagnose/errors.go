package diagnose

import (
	"errors"
	"fmt"

	"goless.io/builder/handler"
	"goless.io/builder/internal/sandbox"
)

// ErrFetch says that modules could not be fetched, for a reason that the author of
// the program cannot mend. It may work later.
var ErrFetch = errors.New("fetching modules failed")

// errFileSize is the ErrTooLarge of a single file.
var errFileSize = fmt.Errorf("%w: the binary, or a compiled package, has more than %d MiB; make large variables and embedded files smaller", sandbox.ErrTooLarge, sandbox.MaxFileSize>>20)

// IsLimit reports whether a build has ended for its memory or its size. It would
// end like that again.
func IsLimit(err error) bool {
	return errors.Is(err, sandbox.ErrOutOfMemory) || errors.Is(err, sandbox.ErrTooLarge)
}

// maxDiagnostics is how many diagnostics an error has at most. Nobody works through
// more before the next build.
const maxDiagnostics = 100

// NewError returns a *handler.Error about a program that does not compile. It has the
// first hundred of all diagnostics, sorted by place and each of them once.
func NewError(all []handler.Diagnostic) error { return newError(sorted(all)) }

// newError returns a *handler.Error with the first hundred of all diagnostics.
func newError(all []handler.Diagnostic) error {
	kept := min(len(all), maxDiagnostics)
	return &handler.Error{Diagnostics: all[:kept], Omitted: len(all) - kept, Compiled: true}
}
