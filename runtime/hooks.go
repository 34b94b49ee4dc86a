package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
)

// minAfterRequests is the minimum time for work after the last request, regardless of how long
// the requests took.
const minAfterRequests = time.Second

// afterRequests returns a context for work after the last request. It ends with the drain, but
// not before minAfterRequests.
func afterRequests(drain context.Context) (context.Context, context.CancelFunc) {
	deadline, _ := drain.Deadline()
	return context.WithTimeout(context.Background(), max(time.Until(deadline), minAfterRequests))
}

// A hookError is the failure of a hook.
type hookError struct {
	hook string
	err  error
}

func (e *hookError) Error() string { return e.hook + " failed: " + e.err.Error() }
func (e *hookError) Unwrap() error { return e.err }

// errHookTimeout is the error of a hook that did not return in time.
var errHookTimeout = errors.New("it did not return in time after its context had ended")

// start calls the Start hook. started is false if the function must not be served. If err is
// nil in that case, the process is shutting down.
func (s *server) start(ctx context.Context, failed <-chan error) (started bool, err error) {
	if s.hooks.Start == nil {
		return true, nil
	}
	began := time.Now()
	done := s.callHook(ctx, "Start", s.hooks.Start)
	defer s.watchStart(began)()
	select {
	case err = <-done:
	case err = <-failed:
		return false, fmt.Errorf("HTTP server failed: %w", err)
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(s.config.DrainTimeout):
			err = errHookTimeout
		}
	}
	switch {
	case err == nil:
		s.logger.Info("started", zap.Duration("duration", time.Since(began)))
	case ctx.Err() == nil:
		err = &hookError{"Start", err}
	default: // the process is shutting down
		s.logger.Info("shut down before Start returned", zap.Error(err))
		return false, nil
	}
	return err == nil, err
}

// stop calls the Stop hook and waits for it as documented in [Function].
func (s *server) stop(drain context.Context) error {
	if s.hooks.Stop == nil {
		return nil
	}
	ctx, cancel := afterRequests(drain)
	defer cancel()
	done := s.callHook(ctx, "Stop", s.hooks.Stop)
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = errHookTimeout
	}
	if err != nil {
		return &hookError{"Stop", err}
	}
	return nil
}

// callHook calls a hook in a new goroutine.
func (s *server) callHook(ctx context.Context, name string, hook func(context.Context) error) (done <-chan error) {
	outcome := make(chan error, 1)
	go s.runHook(ctx, name, hook, outcome)
	return outcome
}

// runHook calls a hook and converts a panic to an error. The stack is logged in a separate
// line, which keeps the line with the error short. [hookStack] looks for the name of this
// function.
func (s *server) runHook(ctx context.Context, name string, hook func(context.Context) error, outcome chan<- error) {
	err := errGoexit
	defer func() {
		if v := recover(); v != nil {
			s.logger.Error("panic in "+name, zap.ByteString("exception.stacktrace", debug.Stack()))
			err = fmt.Errorf("it panicked: %v", v)
		}
		outcome <- err
	}()
	err = hook(ctx)
}
