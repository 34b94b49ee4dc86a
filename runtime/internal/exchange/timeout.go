package exchange

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"goless.io/runtime/internal/wire"
)

// Timeout bounds the time of a request. When it is over, the request's context
// ends and the exchange is settled: the client gets the status 504, or a
// connection that is cut if a part of another answer was on its way. What the
// handler writes after that fails with [http.ErrHandlerTimeout]. A limit of 0 is
// none, and a handler that took over its connection has none either.
//
// Nothing can stop a handler that ignores the end of its context. It goes on, and
// counts as running, but its client hears nothing of it any more.
func Timeout(limit time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		if limit <= 0 {
			return next
		}
		return &timeout{next, timeLimit{
			limit, fmt.Errorf("the request took longer than %s, the function's limit: %w", limit, context.DeadlineExceeded),
		}}
	}
}

type timeout struct {
	next  http.Handler
	limit timeLimit
}

func (t *timeout) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := FromContext(r.Context())
	x.ctx.limit = &t.limit
	if r.ProtoMajor != 1 {
		t.serveStream(w, r, x)
		return
	}
	timer := time.AfterFunc(t.limit.duration, x.timeIsUp)
	defer timer.Stop() // also if the handler panics or ends its goroutine
	t.next.ServeHTTP(w, r)
}

// serveStream serves an HTTP/2 request. Its stream ends only when this returns, so
// that the handler needs a goroutine and a header of its own, which may be left
// behind.
func (t *timeout) serveStream(w http.ResponseWriter, r *http.Request, x *Exchange) {
	x.header = x.inner.Header().Clone()
	own := r.WithContext(r.Context()) // the server may need r while the handler still uses its own
	done := make(chan any, 1)
	go func() {
		var thrown any = http.ErrAbortHandler // if the handler ends its goroutine
		defer func() { done <- thrown }()
		defer func() {
			if v := recover(); v != nil {
				thrown = v
			}
		}()
		t.next.ServeHTTP(w, own)
		thrown = nil
	}()
	timer := time.NewTimer(time.Until(x.Start.Add(t.limit.duration)))
	defer timer.Stop()
	select {
	case thrown := <-done:
		r.MultipartForm = own.MultipartForm // the server removes its files
		if thrown != nil {
			panic(thrown)
		}
	case <-timer.C:
		x.server.running.Add(1) // the handler, until it returns
		x.server.overdue.Add(1)
		x.timeIsUp()
		go func() {
			<-done
			x.server.recordLastEnd()
			x.server.overdue.Add(-1)
			x.server.running.Add(-1)
			if own.MultipartForm != nil {
				_ = own.MultipartForm.RemoveAll() // the server would ignore an error, too
			}
		}()
		if x.Aborted() {
			panic(http.ErrAbortHandler)
		}
	}
}

// timeIsUp settles the exchange because its time is over, unless it is settled
// already or the handler took over the connection.
//
// If the lock is taken, the handler is writing or has just returned. A write is
// interrupted, as it may take for ever. Then whoever gets the lock first settles
// the exchange: this function, or [Exchange.end] for the handler that has returned.
func (x *Exchange) timeIsUp() {
	x.server.running.Add(1) // as in end, a drain waits for the line of the log
	defer x.server.running.Add(-1)
	if !x.mu.TryLock() {
		x.timedOut.Store(true)
		if !x.ending.Load() {
			x.interrupt()
		}
		x.mu.Lock()
	}
	if x.state != active || x.hijacked.Load() {
		x.mu.Unlock()
		return
	}
	if x.header == nil { // serveStream counts its own
		x.overdue = true
		x.server.overdue.Add(1)
	}
	x.expire()
}

// interrupt ends a write that is under way. Its client may not read, or not send
// the rest of a body that the server wants to have first.
func (x *Exchange) interrupt() {
	_ = x.setWriteDeadline(past) // the write may have ended meanwhile
	if x.body != nil && !x.body.ended.Load() {
		_ = x.setReadDeadline(past)
	}
}

// expire settles the exchange as one that has timed out. It is called with the
// lock, and releases it.
func (x *Exchange) expire() {
	x.state = expired
	x.ErrorType = ErrorTimeout
	x.ctx.expire() // before the client hears of it: it may hang up, another reason for the end
	x.answerTimeout()
	x.mu.Unlock()
	x.observe()
}

const timeoutBody = "the function took too long to answer\n"

// answerTimeout gives the client the status 504, or cuts the connection if some of
// another answer has gone out.
func (x *Exchange) answerTimeout() {
	conn := wire.FromContext(x.ctx.base)
	x.aborted = x.aborted || x.begun() && !x.unsent(conn)
	if !x.aborted {
		x.status = http.StatusGatewayTimeout
		x.bytes = int64(len(timeoutBody))
	}
	switch {
	case x.header != nil && !x.aborted: // HTTP/2, whose handler does not use the server's header
		header := x.inner.Header()
		clear(header)
		x.echoIDs(header)
		http.Error(x.inner, strings.TrimSpace(timeoutBody), x.status)
	case x.header != nil || conn == nil: // serveStream ends the stream
	case x.aborted:
		_ = conn.Close() // it is cut off, however well that works
	default:
		conn.WriteFinalAndClose(x.timeoutAnswer())
	}
}

// unsent reports whether all that the handler wrote over HTTP/1 is still in the
// server's buffer. It is no answer then: a client that is cut off without a byte
// would ask once more.
func (x *Exchange) unsent(conn *wire.Conn) bool {
	return x.status != 0 && x.header == nil && conn != nil && conn.Sent() == x.before &&
		!x.timedOut.Load() // else a write was interrupted
}

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
