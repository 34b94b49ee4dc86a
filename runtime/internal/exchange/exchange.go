// Package exchange wraps the handler of a function: it adds request IDs and trace contexts,
// enforces time limits, and records the outcome of each exchange, a request and its response,
// for logs and metrics. Its files are:
//
//	exchange.go   the request, and the outermost handler, which creates the exchange
//	ids.go        the request ID and the trace context: X-Request-Id and traceparent
//	context.go    the context that handlers receive
//	writer.go     the response writer that handlers receive
//	protocol.go   the variants of the response writer for HTTP/1 and HTTP/2
//	body.go       the body of the request
//	stall.go      the interruption of reads and writes that make no progress
//	deadlines.go  the deadlines of the connection
//	timeout.go    the time limit of a request, and the response when it is exceeded
//	settle.go     the end of an exchange, which makes the result final
//	unsettled.go  the exchanges that have not ended, and the timer of their deadlines
//	outcome.go    the result, for observers
//	activity.go   the load: running requests, the time since the last one, and totals
//
// An exchange is settled once, when its handler returns or the request times out. The result
// that the client receives is then final. Logs, metrics, limits and the recovery of panics are
// middlewares and observers in package middleware.
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

// Maximum length of the recorded method and path, in bytes. A request line may be as long as
// the header limit, but a log line must be short.
const (
	maxMethod = 32
	maxPath   = 1024
)

// An Exchange is one request and its response. It is created for each request and not reused: a
// goroutine of a handler may keep the request's context or writer for too long, and must not
// get access to the request of another client.
type Exchange struct {
	// Method, Path and Peer describe the request as it arrived, cut to a length that is
	// suitable for a log line. They do not change if the handler changes its request. Path has
	// no query. Peer is an address without port.
	Method, Path, Peer string
	// RequestID and TraceParent are the values of the client if they are valid, and generated
	// otherwise.
	RequestID, TraceParent string
	// Remote reports whether TraceParent comes from the client. In that case, TraceState
	// contains the values of the tracestate header, which are not validated.
	Remote     bool
	TraceState []string
	// Start is the time when the exchange began.
	Start time.Time

	ctx    requestContext
	server *Server
	logger atomic.Pointer[zap.Logger]
	body   *body // nil if the request has none
	listed

	newRequestID bool      // RequestID is generated
	sentID       [1]string // backing array of a response header, saves an allocation

	writer
	outcome
}

// A Server contains what all exchanges of a server share.
type Server struct {
	// Logger is the parent of the loggers of all requests.
	Logger *zap.Logger
	// UserCore, if not nil, wraps the core of each request's logger. The core already adds the
	// IDs of the request to each line. idKeys are the keys of these IDs.
	UserCore func(core zapcore.Core, idKeys ...string) zapcore.Core
	// Tracer creates spans for the requests. Optional.
	Tracer tracing.Tracer
	// Observers are called in the order of the slice, once for each exchange, when it is
	// settled: when its handler has returned or panicked, or the request has timed out. The
	// result is final then. They may run concurrently with the handler.
	Observers []func(*Exchange)
	// Stall limits how long the handler may read a request body, or write an HTTP/2 response,
	// without progress. 0 is no limit.
	Stall time.Duration
	// Unread is the same limit for the server, which reads the part of a body that the handler
	// did not read.
	Unread time.Duration
	// Draining, if true, adds the header Connection: close to responses, so that clients send
	// their next request on a new connection, and so to another replica.
	Draining atomic.Bool
	// Closed is closed when the server accepts no more requests. It may be nil.
	Closed <-chan struct{}

	activity
	unsettled unsettled
}

// Middleware returns the outermost handler. For each request, it creates the exchange, adds the
// exchange to the context, and calls next. The writer that it passes to next has the methods of
// the server's own writer, except Push, and adds the header X-Request-Id to 5xx responses and to
// responses whose request ID was generated.
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
	defer x.finish()
	x.Start = time.Now()
	x.Method = truncate(r.Method, maxMethod)
	x.Path = truncate(r.URL.Path, maxPath)
	x.Peer = Host(r.RemoteAddr)
	x.identify(r.Header)
	x.ctx.base, x.ctx.exchange = r.Context(), x

	if r.Body != nil && r.Body != http.NoBody {
		h.serveBody(x, xw, r)
		return
	}
	// Changed in place, so that the copy stays on the stack. There is no other reference to the
	// request yet.
	*r = *r.WithContext(&x.ctx)
	h.next.ServeHTTP(xw, r)
}

// serveBody gives the handler a copy of the request. The server inspects the body of its own
// request after the handler has returned, and must find its own type there.
func (h *outermost) serveBody(x *Exchange, w http.ResponseWriter, r *http.Request) {
	own := r.WithContext(&x.ctx)
	x.body = newBody(x, r, own)
	own.Body = x.body
	// The server removes the temporary files of a form, and looks for them in its own request.
	defer func() { r.MultipartForm = own.MultipartForm }()
	h.next.ServeHTTP(w, own)
}

// FromContext returns the exchange of a request that [Server.Middleware] serves, or nil for any
// other context.
func FromContext(ctx context.Context) *Exchange {
	if c, ok := ctx.(*requestContext); ok {
		return c.exchange
	}
	x, _ := ctx.Value(contextKey{}).(*Exchange)
	return x
}

// Keys of the IDs in log lines.
const requestIDKey, traceIDKey = "request_id", "trace_id"

// Logger returns the logger of the request, whose lines contain the IDs of the request. It is
// created at the first call. It is safe for concurrent use.
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

// Closed returns a channel that is closed when the server accepts no more requests.
func (x *Exchange) Closed() <-chan struct{} { return x.server.Closed }

// Tracer returns the tracer of the server, or nil.
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
