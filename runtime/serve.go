package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/middleware"
	"goless.io/runtime/internal/netconn"
	"goless.io/runtime/internal/tracing"
)

// Serve serves fn with the configuration c until ctx ends. Then it drains:
//
//  1. Requests are still served for c.DrainDelay. In its second half, /readyz reports draining.
//  2. The listener is closed, and running requests have c.DrainTimeout to finish.
//  3. The connections of the remaining requests are closed.
//
// It returns nil after a drain in which all requests finished. It returns an error if it cannot
// listen, if a server or a hook fails, or if requests were cut off. Serve does not handle
// signals, and does not change the standard logger or the default registry. [Main] does that.
func Serve(ctx context.Context, c Config, fn Function) error {
	log := newProcessLog(c)
	defer log.end()
	return serve(ctx, c, fn, log)
}

func serve(ctx context.Context, c Config, fn Function, log *processLog) error {
	if fn.Handler == nil {
		return errors.New("Function.Handler is nil: set it to the handler that answers requests")
	}
	ln, adminLn, err := listen(ctx, c)
	if err != nil {
		return err
	}
	registry := newRegistry(c)
	registry.MustRegister(log.dropped)
	tracer := tracing.Open(tracing.Service{Name: c.Name, Namespace: c.Namespace, Version: c.Revision}, log.Logger, registry)
	closed := make(chan struct{})
	requests := &exchange.Server{
		Logger: log.Logger, UserCore: log.userCore, Tracer: tracer, Closed: closed,
		Stall: c.StallTimeout, Unread: cmp.Or(c.StallTimeout, c.ReadHeaderTimeout),
	}
	s := &server{
		config:    c,
		logger:    log.Logger,
		requests:  requests,
		hooks:     fn,
		readiness: newReadiness(fn.Ready, log.Logger, log.buffer.blockedFor),
		function:  newHTTPServer(c, chain(c, requests, fn.Handler, registry, log), log.Logger),
	}
	s.function.RegisterOnShutdown(sync.OnceFunc(func() { close(closed) })) // user code may call Shutdown as well
	s.admin = newHTTPServer(c, adminHandler(s.readiness, metricsHandler(registry, log.Logger), activityHandler(requests)), log.Logger)
	s.admin.ReadTimeout, s.admin.WriteTimeout = c.ReadHeaderTimeout, 30*time.Second // every response is short
	unreadable := middleware.NewUnreadable(registry, log.Logger)
	return s.run(ctx, netconn.Listen(ln, c.StallTimeout, unreadable.Observe), adminLn)
}

// chain wraps the handler with all middlewares and adds the observers to requests.
func chain(c Config, requests *exchange.Server, handler http.Handler, registry prometheus.Registerer, log *processLog) http.Handler {
	metrics := middleware.NewHTTPMetrics(registry, requests.Running, requests.Overdue)
	handler = middleware.Recover(metrics.Panics)(handler)
	handler = middleware.Limit(c.RequestConcurrency)(handler)
	handler = requests.TimeLimit(c.RequestTimeout, handler)
	requests.Observers = append(requests.Observers, metrics.Observe, log.requestLog().Observe)
	if requests.Tracer != nil {
		handler = requests.Tracer.Handler(handler)
	}
	return requests.Middleware(handler)
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
		ConnContext: netconn.Context,
		ErrorLog:    serverLog(logger),
		// ReadTimeout and WriteTimeout are not set: a stream that makes progress may last
		// indefinitely. See packages netconn and exchange.
	}
}

// listen returns the listeners of the function and of the admin port. It opens those that the
// configuration does not contain.
func listen(ctx context.Context, c Config) (ln, adminLn net.Listener, err error) {
	ln, err = listenOn(ctx, c.Listener, "SERVER_PORT", c.ServerPort)
	if err != nil {
		return nil, nil, err
	}
	adminLn, err = listenOn(ctx, c.AdminListener, "ADMIN_PORT", c.AdminPort)
	if err != nil {
		return nil, nil, errors.Join(err, ln.Close())
	}
	return ln, adminLn, nil
}

func listenOn(ctx context.Context, inherited net.Listener, variable string, port int) (net.Listener, error) {
	if inherited != nil {
		return inherited, nil
	}
	var config net.ListenConfig
	ln, err := config.Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the port of %s: %w", variable, err)
	}
	return ln, nil
}

// server serves one function.
type server struct {
	config          Config
	logger          *zap.Logger
	requests        *exchange.Server
	hooks           Function
	readiness       *readiness
	function, admin *http.Server
}

// run serves until ctx ends or a server fails. It returns after the drain.
func (s *server) run(ctx context.Context, ln, adminLn net.Listener) error {
	failed := make(chan error, 2)
	go func() { failed <- s.admin.Serve(adminLn) }()
	defer func() { _ = s.admin.Close() }() // last, because it serves the probes

	// Connections to the function wait in its listener until Start returns.
	if started, err := s.start(ctx, failed); !started {
		_ = ln.Close() // no connection was accepted
		s.sendSpans(context.Background())
		return err
	}
	go func() { failed <- s.function.Serve(ln) }()
	s.readiness.set(ready)
	s.logger.Info("serving", zap.Stringer("address", ln.Addr()), zap.Stringer("admin_address", adminLn.Addr()))
	select {
	case err := <-failed:
		s.cutOff()
		s.sendSpans(context.Background())
		return fmt.Errorf("HTTP server failed: %w", err)
	case <-ctx.Done():
		return s.drain(context.Cause(ctx))
	}
}

// sendSpans exports the recorded spans. It takes no longer than the rest of the drain, even if
// a span processor of the user blocks.
func (s *server) sendSpans(drain context.Context) {
	if s.requests.Tracer == nil {
		return
	}
	ctx, cancel := afterRequests(drain)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.requests.Tracer.Shutdown(ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
