package exchange

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"goless.io/runtime/internal/netconn"
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
		x.timeIsUp()
		x.server.running.Add(1) // the handler, until it returns
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

const timeoutBody = "the function took too long to answer\n"

// answerTimeout gives the client the status 504, or has the connection cut if some of
// another answer has gone out. It is called with the lock.
func (x *Exchange) answerTimeout() {
	x.aborted = x.aborted || x.begun() && !x.unsent()
	if !x.aborted {
		x.status = http.StatusGatewayTimeout
		x.bytes = int64(len(timeoutBody))
	}
	conn := netconn.FromContext(x.ctx.base)
	switch {
	case x.header != nil && x.aborted: // HTTP/2, and serveStream resets the stream
	case x.header != nil: // the handler does not use the server's own header
		header := x.inner.Header()
		clear(header)
		x.echoIDs(header)
		http.Error(x.inner, strings.TrimSpace(timeoutBody), x.status)
	case x.aborted:
		_ = conn.Close() // it is cut off, however well that works
	default:
		conn.WriteFinalAndClose(x.timeoutAnswer())
	}
}

// unsent reports whether all that the handler wrote over HTTP/1 is still in the
// server's buffer. It is no answer then: a client that is cut off without a byte
// would ask once more.
func (x *Exchange) unsent() bool {
	interrupted := x.timedOut.Load() // so that nobody knows how much of a write has gone out
	return x.status != 0 && x.header == nil && !interrupted && netconn.FromContext(x.ctx.base).Sent() == x.sentBefore
}

// timeoutAnswer is the answer as it goes over an HTTP/1 connection, past the
// server's own writer, which the handler may be using.
func (x *Exchange) timeoutAnswer() []byte {
	answer := http.Response{
		ProtoMajor: 1, ProtoMinor: 1,
		StatusCode: http.StatusGatewayTimeout,
		Header: http.Header{
			"Content-Type":           {"text/plain; charset=utf-8"},
			"X-Content-Type-Options": {"nosniff"},
			"Date":                   {time.Now().UTC().Format(http.TimeFormat)},
		},
		ContentLength: int64(len(timeoutBody)),
		Body:          io.NopCloser(strings.NewReader(timeoutBody)),
		Close:         true,
		Request:       &http.Request{Method: x.Method}, // the answer to HEAD has no body
	}
	x.echoIDs(answer.Header)
	var text bytes.Buffer
	_ = answer.Write(&text) // a buffer does not fail
	return text.Bytes()
}
