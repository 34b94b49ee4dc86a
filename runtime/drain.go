package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
)

// Draining returns a channel that is closed when the function accepts no more requests
// and waits for those that run: DRAIN_DELAY after SIGTERM, when /readyz began to report
// draining. A handler whose
// response has no end of its own, such as a stream of events, should return then, so that
// its client connects to another replica. After DRAIN_TIMEOUT it is cut off, and the
// process fails. The context of the request does not end before that.
//
// The channel is nil, and so never closed, if ctx is not that of a request.
func Draining(ctx context.Context) <-chan struct{} {
	if x := exchange.FromContext(ctx); x != nil {
		return x.Closed()
	}
	return nil
}

// errInterrupted as the cause of the context's end skips the drain delay, since
// a person waits for the end and not a cluster.
var errInterrupted = errors.New("interrupted")

// drain stops the server and lets running requests finish within DrainTimeout.
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

// cutOff closes all connections of the server, idle or not. Hijacked ones stay open until
// the process ends. Handlers that notice return, and their
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
