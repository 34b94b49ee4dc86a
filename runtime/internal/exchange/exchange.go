// Package exchange owns what is known about one request and its response
// while they are served: who they are, what was answered, how long it took.
// It refuses to know what is done with that knowledge: logs, metrics and the
// recovery of panics are middlewares that read it.
package exchange

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Longest method and path that an exchange remembers, in bytes. A request line
// may be as long as the header limit, a log line must not.
const (
	maxMethod = 32
	maxPath   = 1024
)

// An Exchange is one request and its response. It is made anew for every
// request and never reused: a handler's goroutine may hold the request's
// context or the writer longer than it should, and must not find another
// client's request behind them.
type Exchange struct {
	// Method, Path and Peer are the request's as it arrived, cut to a length
	// that fits a log line. The handler may change its request; these stay.
	// Path has no query, Peer is an address without port.
	Method, Path, Peer string
	// RequestID and TraceParent are the client's if well formed, else new.
	RequestID, TraceParent string
	// Start is when the exchange began.
	Start time.Time

	ctx      requestContext
	server   *Server
	logger   atomic.Pointer[zap.Logger]
	duration time.Duration
	echo     [2]string // backs the two response headers, saves an allocation

	writer
}

// A Server is what all exchanges of one server share.
type Server struct {
	// Logger is the parent of every request's logger.
	Logger *zap.Logger
	// Draining tells clients, by the header Connection: close, to send their
	// next request on a new connection, and so to another replica.
	Draining atomic.Bool

	ids     ids
	running atomic.Int64
}

// Running returns how many exchanges have begun and not ended. Handlers that
// took over their connection count until they return.
func (s *Server) Running() int64 { return s.running.Load() }

// Begin returns the outermost handler. It makes the exchange, puts it in the
// request's context, sends its ids back, and calls next with a writer that
// offers what the server's own writer offers.
func (s *Server) Begin(next http.Handler) http.Handler {
	return &outermost{s, next}
}

type outermost struct {
	server *Server
	next   http.Handler
}

func (h *outermost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, xw := newExchange(w)
	x.server = h.server
	x.draining = &h.server.Draining
	h.server.running.Add(1)
	defer x.end()
	x.Start = time.Now()
	x.Method = cut(r.Method, maxMethod)
	x.Path = cut(r.URL.Path, maxPath)
	x.Peer = host(r.RemoteAddr)
	x.identify(r.Header, w.Header())
	x.ctx = requestContext{r.Context(), x}

	// In place, so that the copy stays on the stack, and so that the server
	// still finds what the handler leaves in the request (the temporary files
	// of a multipart form) and removes it. Nobody else has the request yet.
	*r = *r.WithContext(&x.ctx)
	h.next.ServeHTTP(xw, r)
}

// end is called when the handlers have returned or panicked.
func (x *Exchange) end() {
	x.closeIfDraining() // the server writes the header now, if nobody did
	x.server.running.Add(-1)
}

// Of returns the exchange of a request that came through [Server.Begin], and
// nil for any other context.
func Of(ctx context.Context) *Exchange {
	if c, ok := ctx.(*requestContext); ok {
		return c.exchange
	}
	x, _ := ctx.Value(contextKey{}).(*Exchange)
	return x
}

// Logger returns the request's own logger, whose lines carry the request's
// ids. It is made at the first call and safe for concurrent use.
func (x *Exchange) Logger() *zap.Logger {
	if l := x.logger.Load(); l != nil {
		return l
	}
	l := x.server.Logger.With(zap.String("request_id", x.RequestID), zap.String("trace_id", x.TraceID()))
	x.logger.CompareAndSwap(nil, l)
	return x.logger.Load()
}

// Duration returns the time from Start to the first call of Duration, so that
// log and metrics report one figure.
func (x *Exchange) Duration() time.Duration {
	if x.duration == 0 {
		x.duration = time.Since(x.Start)
	}
	return x.duration
}

// requestContext is the server's context of the request, with the exchange in
// it. It is a part of the exchange so that both are one allocation.
type requestContext struct {
	context.Context
	exchange *Exchange
}

type contextKey struct{}

func (c *requestContext) Value(key any) any {
	if key == (contextKey{}) {
		return c.exchange
	}
	return c.Context.Value(key)
}

func cut(s string, limit int) string {
	return s[:min(len(s), limit)]
}

// host cuts port and brackets off an address; the address is the kernel's, not
// the client's, so there is nothing to validate.
func host(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		addr = addr[:i]
	}
	return strings.Trim(addr, "[]")
}
