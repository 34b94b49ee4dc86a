package runtime

import (
	"context"
	"net/http"
)

// A Function is what its author wrote: a handler, and hooks that are called before
// the first request, after the last one, and by readiness probes. Hooks may be nil.
type Function struct {
	// Handler answers every request to the function's port. It is required.
	//
	// Its writer has the methods that net/http's own has, but for that of
	// [http.Pusher] and one that is not exported: [http.MaxBytesReader] cannot close
	// the connection after it has refused a body.
	Handler http.HandlerFunc

	// Start is called once, before the first request. Until it returns,
	// /readyz says no and requests wait in the listener, and after ten seconds, and
	// ever more rarely, the log says where it is. If it fails, so does
	// the process, with the error in the last line of its log. Its context
	// ends when the process is asked to end.
	Start func(context.Context) error

	// Stop is called once, after the drain, if Start did not fail; handlers of
	// requests that were cut off may still run. It is not called if a server fails.
	// Its context ends with the time for the drain, but not before a second; then
	// it is waited for no longer. If it fails, the process exits with 1.
	Stop func(context.Context) error

	// Ready is asked, by one probe at a time, whether requests should come. An
	// error is what /readyz answers then. It has a second.
	Ready func(context.Context) error
}
