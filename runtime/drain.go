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

// Draining returns a channel that is closed when the function stops accepting requests and
// waits for running ones: DRAIN_DELAY after SIGTERM, or immediately after SIGINT.
//
// A handler whose response does not end by itself, such as a stream of events, should then
// return, so that its client connects to another replica. If it does not return within
// DRAIN_TIMEOUT, its connection is closed and the process exits with 1. The context of the
// request is not cancelled before that.
//
// If ctx does not belong to a request, the channel is nil and so never closed.
func Draining(ctx context.Context) <-chan struct{} {
	if x := exchange.FromContext(ctx); x != nil {
		return x.Closed()
	}
	return nil
}

// errInterrupted is the cause of a context that SIGINT cancelled. It skips the drain delay,
// because SIGINT comes from a person and not from a cluster.
var errInterrupted = errors.New("interrupted")

// drain stops the server and lets running requests finish within DrainTimeout.
//
// During the delay, every response asks its client to close the connection (see
// [exchange.Server]). Idle connections stay open, because their clients may be sending a
// request at that moment. That is why [http.Server.SetKeepAlivesEnabled], which closes them, is
// not used.
//
// Readiness ends in the middle of the delay. Kubernetes sends a pod that is being deleted no
// requests, unless no other pod is ready: then it sends them to pods that are being deleted and
// still ready (KEP-1669). So the only pod of a function serves while its successor starts. The
// second half of the delay is for pods that are shut down without being deleted, as on a node that
// is shut down: they receive requests until they are not ready.
func (s *server) drain(cause error) error {
	s.requests.Draining.Store(true)
	delay := s.config.DrainDelay
	if errors.Is(cause, errInterrupted) {
		delay = 0
	}
	s.logger.Info("draining", zap.Duration("delay", delay), zap.Duration("timeout", s.config.DrainTimeout))
	time.Sleep(delay / 2)
	s.readiness.set("draining")
	time.Sleep(delay - delay/2)

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

// idleAfter is how long no request must have run before all connections count as idle. net/http
// waits the same time for the first request of a new connection.
const idleAfter = 5 * time.Second

// waitForRequests closes the listener, and connections as they become idle. It returns 0 when
// no request is running, or the number of running requests when ctx ends.
//
// [http.Server.Shutdown] is not sufficient: it does not wait for handlers of hijacked
// connections, and it waits indefinitely for an HTTP/2 connection that is opened just when
// Shutdown begins and is never used.
func (s *server) waitForRequests(ctx context.Context) (left int64) {
	var shut atomic.Bool
	go func() {
		_ = s.function.Shutdown(ctx) // fails only if ctx ends
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

// cutOffWait is how long handlers have to return after their connections are closed.
const cutOffWait = 500 * time.Millisecond

// cutOff closes all connections of the server, idle or not, except hijacked ones, which stay
// open until the process exits. The requests of handlers that return in time are logged as
// usual. The others are logged here, because the process exits before they return.
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
