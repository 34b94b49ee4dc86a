// Package proxy takes the requests of functions, holds each until there is a connection to a
// pod, and sends it there. Package wake makes the connections, and package activator decides
// which requests come here.
//
//	proxy.go       the server, and how a request is held or refused
//	listeners.go   a port for each function
//	connection.go  what connections and requests take of memory
//	budget.go      what bounds that
//	forward.go     how a request is passed on
//	metrics.go     what is counted
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

	"goless.io/operator/internal/activator/target"
	"goless.io/operator/internal/activator/wake"
)

// Limits are about the requests that are held, which means that they wait for a pod.
type Limits struct {
	// Bytes is how much memory connections and requests take, those that are served included: a quarter
	// for connections without a request and those of HTTP/2, the rest for requests.
	Bytes           int64
	Held            int64         // how many are held at a time
	HeldPerFunction int64         // how many of them for one function
	Timeout         time.Duration // how long each is held
}

// Options are what a Server needs.
type Options struct {
	Limits
	// Dial returns a connection to a pod of a function. It retries until ctx ends, and returns
	// at once with a [wake.BrokenError] or [wake.ErrStopped].
	Dial func(context.Context, target.Target) (net.Conn, error)
	// Ready tells whether a pod of the function is ready, so that its clients can reach it without
	// this server.
	Ready   func(context.Context, target.Target) bool
	Metrics *Metrics
	Log     logr.Logger
}

// A Server takes requests for functions. It serves HTTP/1.1 and HTTP/2 without TLS.
type Server struct {
	options     Options
	http        *http.Server
	forward     *httputil.ReverseProxy
	connections *budget
	requests    *budget
	held        atomic.Int64 // requests that wait for a pod
	inFlight    atomic.Int64 // requests that wait for a pod, or are served

	mu        sync.Mutex
	listeners map[types.NamespacedName]*listener // by Service
}

// New returns a server that listens on nothing yet.
func New(o Options) *Server {
	s := &Server{
		options: o, listeners: map[types.NamespacedName]*listener{},
		connections: newBudget(o.Bytes/4, 0), requests: newBudget(o.Bytes-o.Bytes/4, o.Held),
	}
	s.forward = s.reverseProxy()
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
			SendPingTimeout:               15 * time.Second, // as functions have it
			WriteByteTimeout:              30 * time.Second,
		},
		BaseContext: func(l net.Listener) context.Context {
			return context.WithValue(context.Background(), listenerKey{}, l)
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connectionKey{}, c)
		},
		ErrorLog: noLog,
		// Neither ReadTimeout nor WriteTimeout: the function has its own limits.
	}
	o.Metrics.watch(s)
	return s
}

// Shutdown stops listening, and waits for the requests in flight until ctx ends. Then it closes all
// connections.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err == nil {
		// The server of net/http does not wait for requests that took over their connections, such as
		// websockets.
		err = wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(context.Context) (bool, error) { return s.inFlight.Load() == 0, nil })
	}
	return errors.Join(err, s.http.Close())
}

var (
	errBusy   = errors.New("too many requests wait for functions to wake")
	errClosed = errors.New("the function was stopped or deleted")
)

// ServeHTTP is part of [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l := listenerOf(r.Context())
	l.inFlight.Add(1)
	s.inFlight.Add(1)
	defer s.inFlight.Add(-1)
	defer l.inFlight.Add(-1)
	from := connectionOf(r.Context())
	cost := from.begin(r)
	defer from.end()
	ctx, refuse := context.WithCancelCause(r.Context())
	defer refuse(nil)
	charge := s.requests.hold(from.party, cost, func() { refuse(errBusy) })
	defer charge.end()
	to, err := s.hold(ctx, l)
	if err != nil {
		s.refuse(w, r, l, err)
		return
	}
	defer to.Close() //nolint:errcheck // nothing reads from it any more
	servedCost, drop := int64(servedCost), from.cut
	if r.ProtoMajor == 2 { // the connection may have many others
		servedCost, drop = servedCost+http2Stream, func() { refuse(errBusy) }
		r = r.WithContext(ctx)
	}
	charge.serve(servedCost, drop)
	// A function may answer while it still reads the request. The error is that of HTTP/2, where this is always so.
	_ = http.NewResponseController(w).EnableFullDuplex()
	s.pass(w, r, l, to)
}

// hold returns a connection to a pod, as soon as there is one. It waits until the client hangs up, until
// the listener is closed, or for as long as the limits allow.
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
	to, err := s.options.Dial(ctx, l.target())
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	return to, err
}

// refuse answers a request that found no pod.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, l *listener, err error) {
	reason, text := "timeout", "the function sleeps, and no pod of it was ready in time"
	var broken *wake.BrokenError
	switch {
	case r.Context().Err() != nil:
		return // the client has gone
	case errors.Is(err, errBusy):
		reason, text = "busy", errBusy.Error()
	case errors.Is(err, errClosed), errors.Is(err, wake.ErrStopped):
		reason, text = "closed", errClosed.Error()
	case errors.As(err, &broken):
		reason, text = "broken", broken.Error()
	}
	if f := l.target().Function; reason == "timeout" || reason == "broken" {
		text += fmt.Sprintf("; kubectl describe function %s -n %s tells more", f.Name, f.Namespace)
	}
	s.options.Metrics.refused.WithLabelValues(reason).Inc()
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Goless-Rejected", reason) // tells triggers that the function has not seen the event
	w.Header().Set("Connection", "close")     // the next connection may lead to a pod
	http.Error(w, text, http.StatusServiceUnavailable)
}
