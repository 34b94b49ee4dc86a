package exchange

import (
	"net/http"
	"time"
)

// outcome is how an exchange ended.
type outcome struct {
	// Panic is what the handler panicked with, if it did.
	Panic *Panic
	// ErrorType says in one word what is wrong with the answer: [ErrorTimeout],
	// [ErrorRejected], [ErrorStalled], [ErrorContentLength], or nothing.
	ErrorType string
	// OnSettled, if not nil, is called once, after the observers of the server.
	OnSettled func()

	duration time.Duration
}

// The values of ErrorType.
const (
	// ErrorTimeout says that the handler took too long.
	ErrorTimeout = "timeout"
	// ErrorRejected says that the handler was not called.
	ErrorRejected = "rejected"
	// ErrorStalled says that a read or write of the handler's was interrupted, since the
	// client neither sent nor took anything for the stall timeout.
	ErrorStalled = "stalled"
	// ErrorContentLength says that the handler wrote a body of another length than
	// its header Content-Length says.
	ErrorContentLength = "content_length_mismatch"
)

// RejectedHeader is in answers to requests for which the handler was not called. Who delivers events
// believes it, and does not count the request as a try.
const RejectedHeader = "Goless-Rejected"

// A Panic is a panic of the handler as texts.
type Panic struct{ Type, Message, Stack string }

// Panicked notes a panic, unless the exchange is settled already.
func (x *Exchange) Panicked(p *Panic) {
	if x.lockIfActive() == nil {
		x.Panic = p
		x.mu.Unlock()
	}
}

// Reject notes that the handler was not called.
func (x *Exchange) Reject() {
	if x.lockIfActive() == nil {
		x.ErrorType = ErrorRejected
		x.mu.Unlock()
	}
}

// MarkAborted notes that the connection will be cut, since the handler ended its
// goroutine.
func (x *Exchange) MarkAborted() {
	if x.lockIfActive() == nil {
		x.aborted = true
		x.mu.Unlock()
	}
}

// AbortHandler ends the connection, so that the client cannot take what it got for an
// answer. It does not return.
func (x *Exchange) AbortHandler() {
	x.MarkAborted()
	panic(http.ErrAbortHandler)
}

// Begun reports whether it is too late for another answer: some of this one
// may be on its way, or the connection is no longer ours.
func (x *Exchange) Begun() bool {
	if x.lockIfActive() != nil {
		return true
	}
	defer x.mu.Unlock()
	return x.begun()
}

// The methods from here to Duration are for observers: what they return is final
// once the exchange is settled.

// Status returns the final status that was sent: 200 if the handler wrote
// nothing, 101 if it took over the connection, and 0 if the connection was
// aborted without an answer.
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

// Bytes returns the bytes of the body that the handler wrote. It is 0 once the
// handler took over the connection.
func (x *Exchange) Bytes() int64 { return x.bytes }

// Aborted reports whether the request or the answer is known to have broken off: the
// handler or the server cut it, or the client left before its end. What the server still
// has to write when the handler has returned may be lost, which is not known.
func (x *Exchange) Aborted() bool { return x.aborted || x.ErrorType == ErrorStalled }

// Duration returns the time from Start until the exchange was settled.
func (x *Exchange) Duration() time.Duration { return x.duration }
