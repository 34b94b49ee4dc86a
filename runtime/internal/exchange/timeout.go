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

// TimeLimit returns a handler that limits the duration of a request. It must be inside
// [Server.Middleware]. When the limit is exceeded, the request's context ends and the exchange is
// settled: the client receives 504, or the connection is closed if a part of another response has
// been sent. Later writes of the handler fail with [http.ErrHandlerTimeout]. If limit is 0, there
// is no limit. Hijacked connections have no limit.
//
// A handler that ignores its context cannot be stopped. It continues and counts as running, but
// its client receives nothing more from it.
func (s *Server) TimeLimit(limit time.Duration, next http.Handler) http.Handler {
	shared := newTimeLimit(limit)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := FromContext(r.Context())
		x.ctx.limit = shared
		s.unsettled.add(x, r.ProtoMajor == 1)
		if shared != nil && r.ProtoMajor != 1 {
			x.serveStream(w, r, next)
		} else {
			next.ServeHTTP(w, r)
		}
	})
}

// newTimeLimit returns nil if there is no limit.
func newTimeLimit(limit time.Duration) *timeLimit {
	if limit <= 0 {
		return nil
	}
	return &timeLimit{limit, fmt.Errorf("the request took longer than %s, the function's limit: %w", limit, context.DeadlineExceeded)}
}

// serveStream serves an HTTP/2 request. The stream ends only when serveStream returns. So the
// handler runs in its own goroutine and with its own header, which are abandoned after the
// timeout.
func (x *Exchange) serveStream(w http.ResponseWriter, r *http.Request, handler http.Handler) {
	x.header = x.inner.Header().Clone()
	own := r.WithContext(r.Context()) // the server may use r while the handler still uses its copy
	done := make(chan any, 1)
	go func() {
		var thrown any = http.ErrAbortHandler // if the handler calls runtime.Goexit
		defer func() { done <- thrown }()
		defer func() {
			if v := recover(); v != nil {
				thrown = v
			}
		}()
		handler.ServeHTTP(w, own)
		thrown = nil
	}()
	timer := time.NewTimer(time.Until(x.Start.Add(x.ctx.limit.duration)))
	defer timer.Stop()
	select {
	case thrown := <-done:
		r.MultipartForm = own.MultipartForm // the server removes its files
		if thrown != nil {
			panic(thrown)
		}
	case <-timer.C:
		x.onTimeout()
		x.server.running.Add(1) // the handler, until it returns
		go func() {
			<-done
			x.server.recordLastEnd()
			x.server.overdue.Add(-1)
			x.server.running.Add(-1)
			if own.MultipartForm != nil {
				_ = own.MultipartForm.RemoveAll() // the server ignores an error as well
			}
		}()
		if x.Aborted() {
			panic(http.ErrAbortHandler)
		}
	}
}

const timeoutBody = "the function took too long to answer\n"

// answerTimeout sends 504, or closes the connection if a part of another response has been
// sent. x.mu must be held.
func (x *Exchange) answerTimeout() {
	x.aborted = x.aborted || x.begun() && !x.unsent()
	if !x.aborted {
		x.status = http.StatusGatewayTimeout
		x.bytes = int64(len(timeoutBody))
	}
	conn := netconn.FromContext(x.ctx.base)
	switch {
	case x.header != nil && x.aborted: // HTTP/2: serveStream resets the stream
	case x.header != nil: // HTTP/2: the handler does not use the server's header
		header := x.inner.Header()
		clear(header)
		x.sendRequestID(header, x.status)
		http.Error(x.inner, strings.TrimSpace(timeoutBody), x.status)
	case x.aborted:
		_ = conn.Close() // nothing can be done if that fails
	default:
		conn.WriteFinalAndClose(x.timeoutAnswer())
	}
}

// unsent reports whether all that the handler has written over HTTP/1 is still in the server's
// buffer. It is then discarded: a client whose connection is closed without a response would
// retry.
func (x *Exchange) unsent() bool {
	interrupted := x.timedOut.Load() // it is unknown how much of the write was sent
	return x.status != 0 && x.header == nil && !interrupted && netconn.FromContext(x.ctx.base).Sent() == x.sentBefore
}

// timeoutAnswer returns the encoded HTTP/1 response. It is written directly to the connection,
// because the handler may be using the server's writer.
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
		Request:       &http.Request{Method: x.Method}, // the response to HEAD has no body
	}
	x.sendRequestID(answer.Header, answer.StatusCode)
	var text bytes.Buffer
	_ = answer.Write(&text) // a buffer does not fail
	return text.Bytes()
}
