package exchange

import (
	"maps"
	"net/http"
	"time"
)

// An exchange is settled once, by one of two functions that may run concurrently:
//
//	finish     when the handler has returned or panicked
//	onTimeout  when the time limit of the request is exceeded, while the handler runs
//
// The lock of the response determines which one settles it. While holding the lock, it calls
// complete or expire to finish the response. It then releases the lock and calls observe.
//
// A handler that is writing holds the lock, possibly indefinitely, because its client may not
// read. So onTimeout sets timedOut and interrupts the write. The handler cannot use the response
// from then on, and whichever of finish and onTimeout gets the lock first calls expire.

// state is the state of an exchange.
type state uint8

const (
	active   state = iota // not settled
	returned              // the handler returned or panicked in time
	expired               // the request timed out
)

// lockIfActive locks the response. It returns an error, without the lock, if the exchange is
// settled or is about to expire.
func (w *writer) lockIfActive() error {
	w.mu.Lock()
	switch {
	case w.state == returned:
		w.mu.Unlock()
		return errReturned
	case w.state == expired || w.timedOut.Load():
		w.mu.Unlock()
		return http.ErrHandlerTimeout
	}
	return nil
}

// finish is called when all handlers have returned or panicked, except an HTTP/2 handler that
// continues after its timeout. It settles the exchange unless onTimeout has done so.
func (x *Exchange) finish() {
	x.ending.Store(true)
	x.mu.Lock()
	first := x.state == active
	switch {
	case first && x.timedOut.Load() && !x.hijacked.Load():
		x.expire()
	case first:
		x.complete()
		if x.stalled.Load() {
			x.ErrorType = ErrorStalled
		}
	case x.header == nil: // for HTTP/2, serveStream does this when the handler returns
		x.server.overdue.Add(-1)
	}
	x.mu.Unlock()
	if first {
		x.observe()
	}
	x.release()
	x.server.recordLastEnd()
	x.server.running.Add(-1) // last, so that a drain waits for the log line
}

// onTimeout settles the exchange unless finish has done so, or the connection is hijacked. The
// handler continues, and is overdue until it returns.
func (x *Exchange) onTimeout() {
	x.server.running.Add(1) // as in finish, a drain waits for the log line
	defer x.server.running.Add(-1)
	if !x.mu.TryLock() { // the handler is writing, or finish holds the lock
		x.timedOut.Store(true)
		if !x.ending.Load() {
			x.interrupt()
		}
		x.mu.Lock()
	}
	first := x.state == active && !x.hijacked.Load()
	if first {
		x.server.overdue.Add(1)
		x.expire()
	}
	x.mu.Unlock()
	if first {
		x.observe()
	}
}

// interrupt interrupts a pending write. The write may be blocked because the client does not
// read, or because the server first reads the rest of the request body and the client does not
// send it.
func (x *Exchange) interrupt() {
	_ = x.setWriteDeadline(past) // the write may have ended meanwhile
	if x.body != nil && !x.body.ended.Load() {
		_ = x.setReadDeadline(past)
	}
}

// expire finishes the response after the timeout. x.mu must be held.
func (x *Exchange) expire() {
	x.state = expired
	x.ErrorType = ErrorTimeout
	x.ctx.expire() // before the response: the client may disconnect then, which would be another cause
	x.answerTimeout()
}

// complete prepares what the server writes after the handler has returned. x.mu must be held.
func (x *Exchange) complete() {
	x.state = returned
	switch {
	case x.hijacked.Load() || x.aborted:
		return
	case x.status == 0:
		x.implicitHeader() // the server writes it now
	case x.header != nil:
		maps.Copy(x.inner.Header(), x.header) // the announced trailers
	}
	x.checkLength()
}

// checkLength records whether the response is incomplete, which the server does not report: the
// client has disconnected, or the length of the body differs from its Content-Length. In the
// latter case the server, or the HTTP/2 client, aborts the connection. It is an error of the
// handler unless the client has disconnected.
func (x *Exchange) checkLength() {
	switch {
	case x.bytes == x.contentLength: // the server has all of it
	case x.ctx.base.Err() != nil:
		x.aborted = true
	case x.contentLength >= 0:
		x.aborted = true
		x.ErrorType = ErrorContentLength
	}
}

// observe calls the observers of the settled exchange.
func (x *Exchange) observe() {
	x.duration = time.Since(x.Start)
	x.server.unsettled.remove(x)
	for _, observer := range x.server.Observers {
		observer(x)
	}
	if x.OnSettled != nil {
		x.OnSettled()
	}
}
