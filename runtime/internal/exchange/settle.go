package exchange

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"goless.io/runtime/internal/trace"
	"goless.io/runtime/internal/wire"
)

// outcome is how an exchange ended.
type outcome struct {
	// Panic is what the handler panicked with, if it did.
	Panic *Panic
	// ErrorType says in one word why the handler's answer is not its own:
	// [ErrorTimeout], [ErrorRejected], or nothing.
	ErrorType string
	// Span is the exchange as a span, nil if it is not recorded.
	Span *trace.Span

	duration time.Duration
}

// The values of ErrorType.
const (
	ErrorTimeout  = "timeout"
	ErrorRejected = "rejected"
)

// A Panic is a panic of the handler as texts.
type Panic struct{ Type, Message, Stack string }

// Panicked takes note of a panic, unless the exchange is settled already.
func (x *Exchange) Panicked(p *Panic) {
	if x.open() == nil {
		x.Panic = p
		x.mu.Unlock()
	}
}

// Reject takes note that the handler was not asked.
func (x *Exchange) Reject() {
	if x.open() == nil {
		x.ErrorType = ErrorRejected
		x.mu.Unlock()
	}
}

// Duration returns the time from Start until the exchange was settled.
func (x *Exchange) Duration() time.Duration { return x.duration }

// observe shows the settled exchange to everybody who asked for it.
func (x *Exchange) observe() {
	x.duration = time.Since(x.Start)
	for _, observer := range x.server.Observers {
		observer(x)
	}
}

// end is called when the handlers have returned or panicked.
func (x *Exchange) end() {
	x.ending.Store(true)
	x.mu.Lock()
	switch {
	case x.state != running:
		x.mu.Unlock()
	case x.over.Load() && !x.hijacked:
		x.expire()
	default:
		switch {
		case x.hijacked:
		case x.status == 0:
			x.publish(http.StatusOK) // the server writes the header now
		default:
			x.publishTrailers()
		}
		x.state = returned
		x.mu.Unlock()
		x.observe()
	}
	x.leave()
	x.server.running.Add(-1) // at last: a drain waits for the lines of its log
}

// publishTrailers is publish for what the handler set after the header was
// written: what it announced as trailers.
func (x *Exchange) publishTrailers() {
	if x.header == nil {
		return
	}
	maps.Copy(x.inner.Header(), x.header)
}

// SetLimit gives the request's context a deadline. It must be called before the
// handler has the context; [Exchange.Expire] has to be called when it has passed.
func (x *Exchange) SetLimit(limit *Limit) { x.ctx.limit = limit }

// Separate gives the handler a header of its own, so that the exchange can be
// answered by [Exchange.Expire] while the handler is busy with it.
func (x *Exchange) Separate() {
	x.header = x.inner.Header().Clone()
}

// Detach counts a handler that is left behind as running until the returned
// function is called.
func (x *Exchange) Detach() (returned func()) {
	x.server.running.Add(1)
	return func() { x.server.running.Add(-1) }
}

// Expire settles the exchange because its time is over, unless it is settled
// already. The client gets the status 504, or a connection that ends if it got a
// part of another answer before. The handler may go on, but its writes fail with
// [http.ErrHandlerTimeout] and its context has ended.
//
// A handler that took over the connection has all the time it wants.
func (x *Exchange) Expire() {
	defer x.Detach()() // as in end: a drain waits for the line of the log
	if !x.mu.TryLock() {
		x.over.Store(true)
		if !x.ending.Load() {
			x.interrupt()
		}
		x.mu.Lock()
	}
	if x.state != running || x.hijacked {
		x.mu.Unlock()
		return
	}
	x.expire()
}

// interrupt ends a write that is under way. Its client may not read, or not send
// the rest of a body that the server wants to have first.
func (x *Exchange) interrupt() {
	_ = x.endWrite(past) // it may have ended meanwhile
	if x.body != nil && !x.body.ended.Load() {
		x.endRead(past)
	}
}

// expire is called with the lock, and releases it.
func (x *Exchange) expire() {
	x.state = expired
	x.ErrorType = ErrorTimeout
	x.ctx.expire() // before the client hears of it: it may hang up, another reason for the end
	x.hangUp()
	x.mu.Unlock()
	x.observe()
}

// hangUp says the last word to the client.
func (x *Exchange) hangUp() {
	conn := wire.Of(x.ctx.base)
	x.aborted = x.begun() && !x.buffered(conn)
	if !x.aborted {
		x.status = http.StatusGatewayTimeout
		x.bytes = int64(len(timeoutBody))
	}
	switch {
	case x.header != nil && !x.aborted:
		header := x.inner.Header()
		clear(header)
		x.echoIDs(header)
		http.Error(x.inner, strings.TrimSpace(timeoutBody), x.status)
	case x.header != nil || conn == nil:
		// Whoever separated the handler ends the stream.
	case x.aborted:
		_ = conn.Close() // it is cut off, however well that works
	default:
		conn.Answer(x.timeoutAnswer())
	}
}

// buffered reports whether all that the handler wrote still waits in the server's
// buffer. It is no answer then: a client of HTTP/1 that is cut off without a byte
// would ask once more.
func (x *Exchange) buffered(conn *wire.Conn) bool {
	return x.status != 0 && x.header == nil && conn != nil && conn.Sent() == x.before &&
		!x.over.Load() // else a write was interrupted
}

const timeoutBody = "the function took too long to answer\n"

// timeoutAnswer is the answer as it goes over an HTTP/1 connection, past the
// server's own writer, which the handler may be using.
func (x *Exchange) timeoutAnswer() []byte {
	header := http.Header{
		"Content-Type":           {"text/plain; charset=utf-8"},
		"X-Content-Type-Options": {"nosniff"},
		"Date":                   {time.Now().UTC().Format(http.TimeFormat)},
		"Content-Length":         {strconv.Itoa(len(timeoutBody))},
		"Connection":             {"close"},
	}
	x.echoIDs(header)
	var answer bytes.Buffer
	_, _ = io.WriteString(&answer, "HTTP/1.1 504 Gateway Timeout\r\n")
	_ = header.Write(&answer)
	_, _ = io.WriteString(&answer, "\r\n")
	if x.Method != http.MethodHead {
		_, _ = io.WriteString(&answer, timeoutBody)
	}
	return answer.Bytes()
}
