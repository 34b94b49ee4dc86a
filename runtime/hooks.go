package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
)

// minAfterRequests is the least time for what is done after the last request,
// however long the requests took.
const minAfterRequests = time.Second

// afterRequests returns a context for what is done after the last request. It
// ends with the drain, but not before minAfterRequests.
func afterRequests(drain context.Context) (context.Context, context.CancelFunc) {
	deadline, _ := drain.Deadline()
	return context.WithTimeout(context.Background(), max(time.Until(deadline), minAfterRequests))
}

// A hookError says which of the author's hooks failed.
type hookError struct {
	hook string
	err  error
}

func (e *hookError) Error() string { return e.hook + " failed: " + e.err.Error() }
func (e *hookError) Unwrap() error { return e.err }

// errEnded says that a hook was not waited for any longer.
var errEnded = errors.New("it did not return in time, though its context had ended")

// start calls the Start hook. It reports whether there is something to serve;
// if there is not and err is nil, the process was asked to end meanwhile.
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
		return false, fmt.Errorf("cannot go on serving: %w", err)
	case <-ctx.Done():
		select {
		case err = <-done:
		case <-time.After(s.config.DrainTimeout):
			err = errEnded
		}
	}
	switch {
	case err == nil:
		s.logger.Info("started", zap.Duration("duration", time.Since(began)))
	case ctx.Err() == nil:
		err = &hookError{"Start", err}
	default: // it was asked to give up
		s.logger.Info("ended before Start was done", zap.Error(err))
		return false, nil
	}
	return err == nil, err
}

// stop calls the Stop hook and waits for it as [Function] says.
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
		err = errEnded
	}
	if err != nil {
		return &hookError{"Stop", err}
	}
	return nil
}

// callHook calls a hook in a goroutine.
func (s *server) callHook(ctx context.Context, name string, hook func(context.Context) error) (done <-chan error) {
	outcome := make(chan error, 1)
	go s.runHook(ctx, name, hook, outcome)
	return outcome
}

// runHook calls a hook and turns its panic into an error. The stack is a line of its
// own, so that the one with the error stays short. Its name is what [hookStack] looks for.
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
