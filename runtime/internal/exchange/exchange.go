// Package exchange follows one request and its response while they are served,
// one concern a file:
//
//	exchange.go   what a request is, and the outermost handler, which makes it
//	ids.go        the ids that it is known by, in X-Request-Id and traceparent
//	context.go    the context that handlers get
//	writer.go     the response writer that handlers get, for each protocol in protocol.go
//	body.go       the body of the request
//	stall.go      the interruption of reads and writes that make no progress
//	deadlines.go  what sets the deadlines of the connection, for that and for handlers
//	timeout.go    the limit of the request's time, and the answer when it is over
//	settle.go     the end: who decides what the client gets, and when it is final
//	outcome.go    what came of it, for those who are told
//	activity.go   how many there are, and since when there are none
//	hijacked.go   the connections that handlers took over
//
// An exchange is settled once, when its handler has returned or its time is over:
// from then on what the client got is final. Logs, metrics, limits and the recovery
// of panics are middlewares and observers in package middleware.
package exchange

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/tracing"
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
	// Remote tells that TraceParent is the client's. Only then TraceState is
	// set, the header of that name as it came.
	Remote     bool
	TraceState []string
	// Start is when the exchange began.
	Start time.Time

	ctx    requestContext
	server *Server
	logger atomic.Pointer[zap.Logger]
	body   *body     // nil if the request has none
	echo   [2]string // backs the two response headers, saves an allocation

	writer
	outcome
}

// A Server is what all exchanges of one server share.
type Server struct {
	// Logger is the parent of every request's logger.
	Logger *zap.Logger
	// UserCore, if not nil, wraps the core of each request's logger. That core has added
	// the ids of the request, under the keys ids.
	UserCore func(core zapcore.Core, ids ...string) zapcore.Core
	// Tracer makes spans of the requests, unless it is nil.
	Tracer tracing.Tracer
	// Observers are called once for each exchange, in this order, when it is
	// settled: its handler returned or panicked, or its time was over. What
	// the client got is final then. They may run beside the handler.
	Observers []func(*Exchange)
	// Stall is for how long the body of a request may come without progress,
	// and an HTTP/2 response go out without it. 0 is no limit.
	Stall time.Duration
	// Unread is the same for what is left of a body that the handler does not want,
	// which the server reads.
	Unread time.Duration
	// Draining tells clients, by the header Connection: close, to send their
	// next request on a new connection, and so to another replica.
	Draining atomic.Bool
	// Closed is closed when no more requests are accepted. It may be nil.
	Closed <-chan struct{}

	activity
}

// Middleware returns the outermost handler. It makes the exchange, puts it in the
// request's context, sends its ids back, and calls next with a writer that
// offers what the server's own writer offers.
func (s *Server) Middleware(next http.Handler) http.Handler {
	return &outermost{s, next}
}

type outermost struct {
	server *Server
	next   http.Handler
}

func (h *outermost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x, xw := h.server.newExchange(w)
	h.server.running.Add(1)
	defer x.end()
	x.Start = time.Now()
	x.Method = truncate(r.Method, maxMethod)
	x.Path = truncate(r.URL.Path, maxPath)
	x.Peer = Host(r.RemoteAddr)
	x.identify(r.Header)
	x.ctx.base, x.ctx.exchange = r.Context(), x
	h.server.begin(x)

	if r.Body != nil && r.Body != http.NoBody {
		h.serveBody(x, xw, r)
		return
	}
	// In place, so that the copy stays on the stack. Nobody else has the
	// request yet.
	*r = *r.WithContext(&x.ctx)
	h.next.ServeHTTP(xw, r)
}

// serveBody gives the handler a request of its own: the server looks into its
// copy to learn what became of the body, and would not find it behind ours.
func (h *outermost) serveBody(x *Exchange, w http.ResponseWriter, r *http.Request) {
	own := r.WithContext(&x.ctx)
	x.body = newBody(x, r, own)
	own.Body = x.body
	// The temporary files of a form are removed by the server, which has to
	// find them.
	defer func() { r.MultipartForm = own.MultipartForm }()
	h.next.ServeHTTP(w, own)
}

// FromContext returns the exchange of a request that came through [Server.Middleware], and
// nil for any other context.
func FromContext(ctx context.Context) *Exchange {
	if c, ok := ctx.(*requestContext); ok {
		return c.exchange
	}
	x, _ := ctx.Value(contextKey{}).(*Exchange)
	return x
}

// The keys of the ids in lines of the log.
const requestIDKey, traceIDKey = "request_id", "trace_id"

// Logger returns the request's own logger, whose lines carry the request's
// ids. It is made at the first call and safe for concurrent use.
func (x *Exchange) Logger() *zap.Logger {
	if l := x.logger.Load(); l != nil {
		return l
	}
	l := x.server.Logger.With(zap.String(requestIDKey, x.RequestID), zap.String(traceIDKey, x.TraceID()))
	if wrap := x.server.UserCore; wrap != nil {
		l = l.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return wrap(core, requestIDKey, traceIDKey) }))
	}
	x.logger.CompareAndSwap(nil, l)
	return x.logger.Load()
}

// Closed returns what is closed when the exchange's server accepts no more requests.
func (x *Exchange) Closed() <-chan struct{} { return x.server.Closed }

// Tracer returns the tracer of the exchange's server, or nil.
func (x *Exchange) Tracer() tracing.Tracer { return x.server.Tracer }

func truncate(s string, limit int) string {
	return s[:min(len(s), limit)]
}

// Host returns the address without its port, if it has one.
func Host(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
