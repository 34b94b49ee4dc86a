package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/middleware"
	"goless.io/runtime/internal/trace"
	"goless.io/runtime/internal/wire"
)

// errInterrupted as the cause of the context's end skips the drain delay: a
// person waits, and no cluster.
var errInterrupted = errors.New("interrupted")

// Serve serves f as c says until ctx ends, then drains: readiness is withdrawn
// at once, requests are served for c.DrainDelay as before, and those still
// running then have c.DrainTimeout to end.
//
// It returns nil after a clean drain, and an error if it cannot listen, if a
// server or a hook fails, or if requests had to be cut off. It leaves the
// process alone: signals, the standard logger and the default registry are
// Main's business.
func Serve(ctx context.Context, c Config, f Function) error {
	return serve(ctx, c, f, newJournal(c))
}

func serve(ctx context.Context, c Config, fn Function, log *journal) error {
	function, admin, err := listen(ctx, c)
	if err != nil {
		return err
	}
	registry := newRegistry(c)
	registry.MustRegister(log.dropped)
	spans := trace.Open(trace.Resource{Name: c.Name, Namespace: c.Namespace, Version: c.Revision}, log.Logger, registry)
	requests := &exchange.Server{Logger: log.Logger, Spans: spans, Stall: c.StallTimeout}
	f := &server{
		config:    c,
		logger:    log.Logger,
		requests:  requests,
		hooks:     fn,
		readiness: newReadiness(fn.Ready, log.Logger),
		function:  newHTTPServer(c, observed(c, requests, fn.Handler, registry, log), log.Logger),
	}
	f.admin = newHTTPServer(c, adminHandler(f.readiness, metricsHandler(registry, log.Logger)), log.Logger)
	f.admin.ReadTimeout, f.admin.WriteTimeout = c.ReadHeaderTimeout, 30*time.Second // nothing here takes long
	return f.run(ctx, wire.Listen(function, c.StallTimeout), admin)
}

// observed puts the middlewares around the handler and the observers behind it.
func observed(c Config, requests *exchange.Server, handler http.Handler, registry prometheus.Registerer, log *journal) http.Handler {
	metrics := middleware.NewHTTPMetrics(registry, requests.Running)
	handler = middleware.Recover(metrics.Panics)(handler)
	handler = middleware.Limit(c.RequestConcurrency)(handler)
	handler = middleware.Timeout(c.RequestTimeout)(handler)
	requests.Observers = append(requests.Observers, metrics.Observe, log.requests().Observe)
	if requests.Spans != nil {
		handler = middleware.Trace(requests.Spans)(handler)
		requests.Observers = append(requests.Observers, middleware.RecordSpan(requests.Spans))
	}
	return requests.Begin(handler)
}

func newHTTPServer(c Config, handler http.Handler, logger *zap.Logger) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: c.ReadHeaderTimeout,
		IdleTimeout:       c.IdleTimeout,
		MaxHeaderBytes:    c.MaxHeaderBytes,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: 250,
			SendPingTimeout:      15 * time.Second,
			WriteByteTimeout:     30 * time.Second,
		},
		ConnContext: wire.Context,
		ErrorLog:    serverLog(logger),
		// Neither ReadTimeout nor WriteTimeout: a stream may last for ever, as
		// long as it makes progress. See packages wire and exchange.
	}
}

// listen returns the two listeners, those of the configuration if it has any.
func listen(ctx context.Context, c Config) (function, admin net.Listener, err error) {
	function, err = listenOn(ctx, c.Listener, "SERVER_PORT", c.ServerPort)
	if err != nil {
		return nil, nil, err
	}
	admin, err = listenOn(ctx, c.AdminListener, "ADMIN_PORT", c.AdminPort)
	if err != nil {
		return nil, nil, errors.Join(err, function.Close())
	}
	return function, admin, nil
}

func listenOn(ctx context.Context, inherited net.Listener, variable string, port int) (net.Listener, error) {
	if inherited != nil {
		return inherited, nil
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the port that %s names: %w", variable, err)
	}
	return l, nil
}

// server is one function that is served.
type server struct {
	config          Config
	logger          *zap.Logger
	requests        *exchange.Server
	hooks           Function
	readiness       *readiness
	function, admin *http.Server
}

// run serves until ctx ends or a server fails, and returns after the drain.
func (s *server) run(ctx context.Context, function, admin net.Listener) error {
	failed := make(chan error, 2)
	go func() { failed <- s.admin.Serve(admin) }()
	defer func() { _ = s.admin.Close() }() // to the end: it answers the probes

	// Connections to the function wait in its listener until Start is done.
	if started, err := s.start(ctx, failed); !started {
		_ = function.Close() // nobody was served
		return err
	}
	go func() { failed <- s.function.Serve(function) }()
	s.readiness.set(ready)
	s.logger.Info("serving", zap.Stringer("address", function.Addr()), zap.Stringer("admin_address", admin.Addr()))
	select {
	case err := <-failed:
		_ = s.function.Close() // it failed
		s.sendSpans(context.Background())
		return fmt.Errorf("cannot go on serving: %w", err)
	case <-ctx.Done():
		return s.drain(context.Cause(ctx))
	}
}

// sendSpans sends what is recorded of traces, with what is left of the drain.
func (s *server) sendSpans(drain context.Context) {
	if s.requests.Spans != nil {
		ctx, cancel := rest(drain)
		defer cancel()
		s.requests.Spans.Close(ctx)
	}
}

// drain ends the server without failing a request.
//
// While the delay lasts, every answer asks its client to leave (see
// [exchange.Server]). Idle connections are left open: to close one is to race
// with the request that its client may be sending. http.Server's own
// SetKeepAlivesEnabled(false) would close them.
func (s *server) drain(cause error) error {
	s.requests.Draining.Store(true)
	s.readiness.set("draining")
	delay := s.config.DrainDelay
	if errors.Is(cause, errInterrupted) {
		delay = 0
	}
	s.logger.Info("draining", zap.Duration("delay", delay), zap.Duration("timeout", s.config.DrainTimeout))
	time.Sleep(delay)

	ctx, cancel := context.WithTimeout(context.Background(), s.config.DrainTimeout)
	defer cancel()
	cutOff := s.settle(ctx)
	_ = s.function.Close() // what is left is idle, or to be cut off
	err := s.stop(ctx)
	s.sendSpans(ctx)
	if cutOff > 0 {
		err = errors.Join(fmt.Errorf("%d requests were cut off: they still ran %s after the drain began", cutOff, delay+s.config.DrainTimeout), err)
	}
	if err == nil {
		s.logger.Info("drained")
	}
	return err
}

// quiet is how long no request runs before the connections that are left are
// taken for idle. net/http waits as long for the first request of a new one.
const quiet = 5 * time.Second

// settle closes the listener and then the connections as they become idle. It
// returns how many requests still run when ctx ends, and 0 as soon as none is
// left.
//
// Shutdown alone is not enough: it forgets the handlers that took over their
// connection, and it waits without end for an HTTP/2 connection that is made
// just when it begins and is never used.
func (s *server) settle(ctx context.Context) (cutOff int64) {
	shut := make(chan struct{})
	go func() {
		_ = s.function.Shutdown(ctx) // fails only as ctx does
		close(shut)
	}()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for busy := time.Now(); ; <-poll.C {
		running := s.requests.Running()
		switch {
		case ctx.Err() != nil:
			return running
		case running > 0:
			busy = time.Now()
		case closed(shut) || time.Since(busy) > quiet:
			return 0
		}
	}
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
