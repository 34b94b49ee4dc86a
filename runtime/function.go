package runtime

import (
	"context"
	"net/http"
)

// A Function is a handler with optional hooks, which are called before the first request, after
// the last one, and by readiness probes.
type Function struct {
	// Handler serves every request to the function's port. It is required.
	//
	// The ResponseWriter has the same methods as that of net/http, with two exceptions: it is
	// not an [http.Pusher], and [http.MaxBytesReader] cannot close the connection when a body
	// is too large.
	Handler http.HandlerFunc

	// Start is called once, before the first request. Until it returns, /readyz responds with
	// 503 and new connections wait in the listener. The stack of a slow Start is logged: after
	// 10 seconds, and again each time its duration has doubled.
	//
	// If Start fails or panics, the process exits with 1, and the error is in the last line of
	// its log. The context is cancelled when the process receives SIGTERM or SIGINT. Start then has
	// DrainTimeout to return. An error or a timeout of Start is not a failure during a shutdown:
	// the process exits with 0.
	Start func(context.Context) error

	// Stop is called once, after the drain, if Start returned nil. Handlers of requests that
	// were cut off may still run. Stop is not called if a server fails.
	//
	// The context ends when DrainTimeout has passed since the listener was closed, but not
	// earlier than one second after Stop was called. Serve does not wait longer for Stop. If
	// Stop fails, panics or does not return in time, the process exits with 1.
	Stop func(context.Context) error

	// Ready is called by readiness probes. If it returns an error, /readyz responds with 503 and
	// the error. The error is also logged, at most once every 10 seconds. Calls do not overlap:
	// concurrent probes share the result of one call. The context and the probe time out after
	// one second.
	Ready func(context.Context) error
}
