package exchange

import (
	"net/http"
	"time"
)

// outcome is the result of an exchange.
type outcome struct {
	// Panic is the panic of the handler, or nil.
	Panic *Panic
	// ErrorType is the kind of error: [ErrorTimeout], [ErrorRejected], [ErrorStalled],
	// [ErrorContentLength], or "" if there was none.
	ErrorType string
	// abandoned reports whether the handler aborted the connection while the client was connected.
	abandoned bool
	// OnSettled, if not nil, is called once, after the observers of the server.
	OnSettled func()

	duration time.Duration
}

// Values of ErrorType.
const (
	// ErrorTimeout means that the request exceeded its time limit.
	ErrorTimeout = "timeout"
	// ErrorRejected means that the handler was not called.
	ErrorRejected = "rejected"
	// ErrorStalled means that a read or write of the handler was interrupted, because the
	// client neither sent nor received anything for the stall timeout.
	ErrorStalled = "stalled"
	// ErrorContentLength means that the length of the body that the handler wrote differs from
	// its Content-Length.
	ErrorContentLength = "content_length_mismatch"
)

// RejectedHeader is set in responses to requests for which the handler was not called. Triggers
// do not count such a request as a delivery attempt.
const RejectedHeader = "Goless-Rejected"

// A Panic describes a panic of the handler.
type Panic struct{ Type, Message, Stack string }

// Panicked records a panic, unless the exchange is settled.
func (x *Exchange) Panicked(p *Panic) {
	if x.lockIfActive() == nil {
		x.Panic = p
		x.mu.Unlock()
	}
}

// Reject records that the handler was not called.
func (x *Exchange) Reject() {
	if x.lockIfActive() == nil {
		x.ErrorType = ErrorRejected
		x.mu.Unlock()
	}
}

// MarkAborted records that the connection will be closed, because the handler called
// [runtime.Goexit] or panicked, and the response cannot be completed.
func (x *Exchange) MarkAborted() {
	if x.lockIfActive() == nil {
		x.aborted, x.abandoned = true, x.ctx.base.Err() == nil
		x.mu.Unlock()
	}
}

// AbortHandler closes the connection, so that the client does not mistake a partial response
// for a complete one. It does not return.
func (x *Exchange) AbortHandler() {
	x.MarkAborted()
	panic(http.ErrAbortHandler)
}

// Begun reports whether it is too late for a different response: a part of the current one may
// have been sent, or the connection is hijacked.
func (x *Exchange) Begun() bool {
	if x.lockIfActive() != nil {
		return true
	}
	defer x.mu.Unlock()
	return x.begun()
}

// The methods from here to Duration are for observers. Their results are final once the
// exchange is settled.

// Status returns the final status that was sent: 200 if the handler wrote nothing, 101 if the
// connection was hijacked, and 0 if the connection was aborted without a response.
func (x *Exchange) Status() int {
	switch {
	case x.status != 0:
		return x.status
	case x.hijacked.Load():
		return http.StatusSwitchingProtocols
	case x.aborted && !x.copying:
		return 0
	default:
		return http.StatusOK
	}
}

// Bytes returns the size of the response body that the handler wrote, not including what was
// written to a hijacked connection.
func (x *Exchange) Bytes() int64 { return x.bytes }

// Aborted reports whether the request or the response is known to be incomplete: the handler or
// the server aborted it, or the client disconnected. Data that the server writes after the
// handler has returned may be lost without being reported here.
func (x *Exchange) Aborted() bool { return x.aborted || x.ErrorType == ErrorStalled }

// Failed reports whether the function failed to serve the request: the status is 5xx, the handler
// panicked or aborted the connection, the request timed out, or the length of the response was
// wrong. A client that disconnects or stalls is not a failure.
func (x *Exchange) Failed() bool {
	return x.Panic != nil || x.abandoned || x.ErrorType == ErrorTimeout || x.ErrorType == ErrorContentLength || x.Status() >= http.StatusInternalServerError
}

// Duration returns the time from Start until the exchange was settled.
func (x *Exchange) Duration() time.Duration { return x.duration }
