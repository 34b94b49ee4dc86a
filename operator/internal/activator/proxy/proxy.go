// Package proxy receives requests to functions, holds each until there is a connection to a pod,
// and forwards it.
//
//	proxy.go       the Server; holds and rejects requests
//	listeners.go   one port for each function
//	connection.go  memory cost of connections and requests
//	budget.go      limits the memory of connections and requests, and the number of held requests;
//	               at a limit, selects the namespace that uses the most and, within it, the client
//	               address that uses the most, and rejects a request or closes a connection of it
//	forward.go     forwards requests
//	metrics.go     metrics
package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/wake"
)

// Limits bound the memory of a Server, and the requests that it holds while no pod is ready.
type Limits struct {
	// Bytes is the memory for connections and requests, including those being served. A quarter is
	// for connections without a request and HTTP/2 connections, the rest for requests.
	Bytes           int64
	Held            int64         // maximum number of held requests
	HeldPerFunction int64         // maximum number of held requests for one function
	Timeout         time.Duration // maximum time for which a request is held
}

// Options configure a Server.
type Options struct {
	Limits
	// Dial returns a connection to a pod of a function. It retries until ctx ends. It does not retry
	// after a [wake.BrokenError] or [wake.ErrStopped].
	Dial func(context.Context, backend.Backend) (net.Conn, error)
	// Ready reports whether a pod of the function is ready, so that clients can reach it directly.
	Ready   func(context.Context, backend.Backend) bool
	Metrics *Metrics
	Log     logr.Logger
}

// A Server receives requests for functions. It serves HTTP/1.1 and HTTP/2, both without TLS.
type Server struct {
	options      Options
	http         *http.Server
	reverseProxy *httputil.ReverseProxy
	connections  *budget
	requests     *budget
	held         atomic.Int64 // requests waiting for a pod
	inFlight     atomic.Int64 // requests waiting for a pod or being served

	mu        sync.Mutex
	listeners map[types.NamespacedName]*listener // by Service
}

// New returns a Server without listeners.
func New(o Options) *Server {
	s := &Server{
		options: o, listeners: map[types.NamespacedName]*listener{},
		connections: newBudget(o.Bytes/4, 0), requests: newBudget(o.Bytes-o.Bytes/4, o.Held),
	}
	s.reverseProxy = s.newReverseProxy()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	s.http = &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    maxHeader,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          100,
			MaxReceiveBufferPerConnection: http2Connection,
			MaxReceiveBufferPerStream:     http2Stream,
			SendPingTimeout:               15 * time.Second, // the same value as in functions
			WriteByteTimeout:              30 * time.Second,
		},
		BaseContext: func(l net.Listener) context.Context {
			return context.WithValue(context.Background(), listenerKey{}, l)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
		ErrorLog: discardLog,
		// No ReadTimeout and no WriteTimeout: the function has its own limits.
	}
	o.Metrics.watch(s)
	return s
}

// Shutdown closes the listeners and waits for the requests in flight until ctx ends. Then it closes
// all connections.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err == nil {
		// http.Server does not wait for requests that hijacked their connections, such as
		// WebSockets.
		err = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return s.inFlight.Load() == 0, nil })
	}
	return errors.Join(err, s.http.Close())
}

var (
	errBusy   = errors.New("too many requests are waiting for sleeping functions")
	errClosed = errors.New("the function was stopped or deleted")
)

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l := listenerOf(r.Context())
	l.inFlight.Add(1)
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	defer l.inFlight.Add(-1)
	from := connectionOf(r.Context())
	cost := from.beginRequest(r)
	defer from.endRequest()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	charge := s.requests.hold(from.tenant, cost, func() { cancel(errBusy) })
	defer charge.end()
	to, err := s.hold(ctx, l)
	if err != nil {
		s.reject(w, r, l, err)
		return
	}
	defer to.Close() //nolint:errcheck // no more reads
	servedCost, evict := int64(servedCost), from.cut
	if r.ProtoMajor == 2 { // the connection may serve other requests
		servedCost, evict = servedCost+http2Stream, func() { cancel(errBusy) }
		r = r.WithContext(ctx)
	}
	charge.serve(servedCost, evict)
	// Lets a function respond before it has read the request. HTTP/2 always allows that and returns
	// an error.
	_ = http.NewResponseController(w).EnableFullDuplex()
	s.forwardRequest(w, r, l, to)
}

// hold waits for a connection to a pod and returns it. It fails when the client disconnects, when
// the listener is closed, or when a limit is exceeded.
func (s *Server) hold(ctx context.Context, l *listener) (net.Conn, error) {
	s.held.Add(1)
	heldForFunction := l.held.Add(1)
	defer s.held.Add(-1)
	defer l.held.Add(-1)
	if heldForFunction > s.options.HeldPerFunction {
		return nil, errBusy
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.closed, func() { cancel(errClosed) })()
	ctx, stop := context.WithTimeoutCause(ctx, s.options.Timeout, fmt.Errorf("no pod of the function was ready within %s", s.options.Timeout))
	defer stop()
	to, err := s.options.Dial(ctx, l.backend())
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return to, err
}

// reject responds with 503 to a request for which there is no pod.
func (s *Server) reject(w http.ResponseWriter, r *http.Request, l *listener, err error) {
	reason, text := "timeout", "no pod of the function could take the request in time"
	var broken *wake.BrokenError
	switch {
	case r.Context().Err() != nil:
		return // the client has disconnected
	case errors.Is(err, errBusy):
		reason, text = "busy", errBusy.Error()
	case errors.Is(err, errClosed), errors.Is(err, wake.ErrStopped):
		reason, text = "closed", errClosed.Error()
	case errors.As(err, &broken):
		reason, text = "broken", broken.Error()
	}
	if f := l.backend().Function; reason == "timeout" || reason == "broken" {
		text += fmt.Sprintf("; see kubectl describe function %s -n %s", f.Name, f.Namespace)
	}
	s.options.Metrics.rejected.WithLabelValues(reason).Inc()
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Goless-Rejected", reason) // for triggers: the function has not received the event
	w.Header().Set("Connection", "close")     // the next connection may lead to a pod
	http.Error(w, text, http.StatusServiceUnavailable)
}
