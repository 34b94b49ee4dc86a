package exchange

import (
	"maps"
	"net/http"
	"time"
)

// An exchange is settled once, by one of two functions that may run at the same time:
//
//	end       when the handler has returned or panicked
//	timeIsUp  when the time of the request is over, beside the handler
//
// The lock of the response decides who is first. Then complete or expire brings the
// answer to its end, with the lock, and observe tells who wants to know, without it.
//
// A handler that is writing has the lock, maybe for ever, as its client need not read. So
// timeIsUp interrupts the write and says by timedOut that the time is over. From then on
// the handler cannot use the response any more, and whoever is first of end and timeIsUp
// lets the exchange expire.

// state says whether an exchange is settled, and how.
type state uint8

const (
	active   state = iota // not settled
	returned              // its handler has returned or panicked in time
	expired               // its time was over before that
)

// lockIfActive locks the response. It returns an error, without the lock, if the
// exchange is settled or is about to expire.
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

// end is called when all handlers have returned or panicked, but for one of HTTP/2 that
// goes on after its time. It settles the exchange unless timeIsUp has.
func (x *Exchange) end() {
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
	case x.header == nil: // for HTTP/2 serveStream does this when the handler returns
		x.server.overdue.Add(-1)
	}
	x.mu.Unlock()
	if first {
		x.observe()
	}
	x.release()
	x.server.recordLastEnd()
	x.server.running.Add(-1) // at last: a drain waits for the lines of its log
}

// timeIsUp settles the exchange unless end has, or the handler has taken over the
// connection. The handler goes on, and is overdue until it returns.
func (x *Exchange) timeIsUp() {
	x.server.running.Add(1) // as in end, a drain waits for the line of the log
	defer x.server.running.Add(-1)
	if !x.mu.TryLock() { // the handler is writing, or end has the lock
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

// interrupt ends a write that is under way. Its client may not read, or not send
// the rest of a body that the server wants to have first.
func (x *Exchange) interrupt() {
	_ = x.setWriteDeadline(past) // the write may have ended meanwhile
	if x.body != nil && !x.body.ended.Load() {
		_ = x.setReadDeadline(past)
	}
}

// expire gives the client the answer that the time is over. It is called with the lock.
func (x *Exchange) expire() {
	x.state = expired
	x.ErrorType = ErrorTimeout
	x.ctx.expire() // before the client hears of it: it may hang up, another reason for the end
	x.answerTimeout()
}

// complete brings to the server what it writes when the handler has returned. It is
// called with the lock.
func (x *Exchange) complete() {
	x.state = returned
	switch {
	case x.hijacked.Load() || x.aborted:
		return
	case x.status == 0:
		x.implicitHeader() // the server writes it now
	case x.header != nil:
		maps.Copy(x.inner.Header(), x.header) // what the handler announced as trailers
	}
	x.checkLength()
}

// checkLength notes an answer that cannot come to its end: the client has left, or the
// body has another length than its header says. The server does not report either.
// A wrong length, for which it or HTTP/2's client cuts the connection, is the
// handler's mistake, unless the client did not want the rest.
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

// observe tells all who want to know of the settled exchange.
func (x *Exchange) observe() {
	x.duration = time.Since(x.Start)
	x.server.settled(x)
	for _, observer := range x.server.Observers {
		observer(x)
	}
	if x.OnSettled != nil {
		x.OnSettled()
	}
}
