package runtime

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/middleware"
	"goless.io/runtime/internal/tracing"
	"goless.io/runtime/internal/wire"
)

// errInterrupted as the cause of the context's end skips the drain delay, since
// a person waits for the end and not a cluster.
var errInterrupted = errors.New("interrupted")

// Serve serves fn as c says until ctx ends, then drains: readiness is withdrawn
// at once, requests are served for c.DrainDelay as before, and those still
// running then have c.DrainTimeout to end.
//
// It returns nil after a clean drain, and an error if it cannot listen, if a
// server or a hook fails, or if requests had to be cut off. It leaves the
// process alone: signals, the standard logger and the default registry are
// Main's business.
func Serve(ctx context.Context, c Config, fn Function) error {
	return serve(ctx, c, fn, newProcessLog(c))
}

func serve(ctx context.Context, c Config, fn Function, log *processLog) error {
	defer log.buffer.Sync() //nolint:errcheck // there is no place left to complain in
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
	requests := &exchange.Server{Logger: log.Logger, Tracer: tracer, Stall: c.StallTimeout}
	s := &server{
		config:    c,
		logger:    log.Logger,
		requests:  requests,
		hooks:     fn,
		readiness: newReadiness(fn.Ready, log.Logger),
		function:  newHTTPServer(c, chain(c, requests, fn.Handler, registry, log), log.Logger),
	}
	s.admin = newHTTPServer(c, adminHandler(s.readiness, metricsHandler(registry, log.Logger), activityHandler(requests.Activity)), log.Logger)
	s.admin.ReadTimeout, s.admin.WriteTimeout = c.ReadHeaderTimeout, 30*time.Second // nothing here takes long
	return s.run(ctx, wire.Listen(ln, c.StallTimeout), adminLn)
}

// chain returns the handler with all middlewares around it, and adds the observers
// to requests.
func chain(c Config, requests *exchange.Server, handler http.Handler, registry prometheus.Registerer, log *processLog) http.Handler {
	metrics := middleware.NewHTTPMetrics(registry, requests.Running, requests.Overdue)
	handler = middleware.Recover(metrics.Panics)(handler)
	handler = middleware.Limit(c.RequestConcurrency)(handler)
	handler = exchange.Timeout(c.RequestTimeout)(handler)
	requests.Observers = append(requests.Observers, metrics.Observe, log.requests().Observe)
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
		ConnContext: wire.Context,
		ErrorLog:    serverLog(logger),
		// Neither ReadTimeout nor WriteTimeout: a stream may last for ever, as
		// long as it makes progress. See packages wire and exchange.
	}
}

// listen returns the two listeners, those of the configuration if it has any.
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
		return nil, fmt.Errorf("cannot listen on the port that %s names: %w", variable, err)
	}
	return ln, nil
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
func (s *server) run(ctx context.Context, ln, adminLn net.Listener) error {
	failed := make(chan error, 2)
	go func() { failed <- s.admin.Serve(adminLn) }()
	defer func() { _ = s.admin.Close() }() // last, since it answers the probes

	// Connections to the function wait in its listener until Start is done.
	if started, err := s.start(ctx, failed); !started {
		_ = ln.Close() // nobody was served
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
		return fmt.Errorf("cannot go on serving: %w", err)
	case <-ctx.Done():
		return s.drain(context.Cause(ctx))
	}
}

// sendSpans sends the spans that were recorded. It takes no longer than what is
// left of the drain.
func (s *server) sendSpans(drain context.Context) {
	if s.requests.Tracer != nil {
		ctx, cancel := afterRequests(drain)
		defer cancel()
		s.requests.Tracer.Shutdown(ctx)
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
	left := s.waitForRequests(ctx)
	s.cutOff()
	err := s.stop(ctx)
	s.sendSpans(ctx)
	if left > 0 {
		err = errors.Join(fmt.Errorf("%d requests were cut off: they still ran %s after the drain began", left, delay+s.config.DrainTimeout), err)
	}
	if err == nil {
		s.logger.Info("drained")
	}
	return err
}

// idleAfter is how long no request may have run for all connections to count as
// idle. net/http waits as long for the first request of a new connection.
const idleAfter = 5 * time.Second

// waitForRequests closes the listener, and connections as they become idle. It
// returns 0 as soon as no request runs any more, or how many are left when ctx ends.
//
// Shutdown alone is not enough: it forgets the handlers that took over their
// connection, and it waits without end for an HTTP/2 connection that is made
// just when it begins and is never used.
func (s *server) waitForRequests(ctx context.Context) (left int64) {
	var shut atomic.Bool
	go func() {
		_ = s.function.Shutdown(ctx) // fails only as ctx does
		shut.Store(true)
	}()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for lastBusy := time.Now(); ; <-poll.C {
		running := s.requests.Running()
		switch {
		case ctx.Err() != nil:
			return running
		case running > 0:
			lastBusy = time.Now()
		case shut.Load() || time.Since(lastBusy) > idleAfter:
			return 0
		}
	}
}

// cutOffWait is how long handlers have to return after their connection was closed.
const cutOffWait = 500 * time.Millisecond

// cutOff closes all connections, idle or not. Handlers that notice return, and their
// requests are logged as ever. Those that do not are logged here, since the process will
// end before they do.
func (s *server) cutOff() {
	_ = s.function.Close() // nothing can be done if that fails
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for began := time.Now(); s.requests.Running() > 0 && time.Since(began) < cutOffWait; {
		<-poll.C
	}
	for _, x := range s.requests.Unsettled() {
		s.logger.Error("request cut off: its handler has not returned",
			zap.String("http.request.method", x.Method), zap.String("url.path", x.Path),
			zap.String("request_id", x.RequestID), zap.Duration("duration", time.Since(x.Start)))
	}
}
