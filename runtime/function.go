package runtime

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"go.uber.org/zap"
)

// A Function is what its author wrote: a handler, and the hooks of a life that
// begins before the first request and ends after the last. Hooks may be nil.
type Function struct {
	// Handler answers every request to the function's port. It is required.
	//
	// What it can find on its writer is what net/http's own has, but for what no
	// other package can offer: after [http.MaxBytesReader] has refused a body, the
	// connection is not closed.
	Handler http.HandlerFunc

	// Start is called once, before the first request. Until it returns,
	// /readyz says no and requests wait in the listener. If it fails, so does
	// the process, with the error in the last line of its log. Its context
	// ends when the process is asked to.
	Start func(context.Context) error

	// Stop is called once, after the last request and only if Start did not
	// fail. Its context ends with the drain, but not before a second; then it
	// is waited for no longer. If it fails, the process exits with 1.
	Stop func(context.Context) error

	// Ready is asked, by one probe at a time, whether requests should come. An
	// error is what /readyz answers then. It has a second.
	Ready func(context.Context) error
}

// minRest is the least time for what comes after the requests, however long
// they took.
const minRest = time.Second

// rest returns a context for what comes after the requests: with what is left
// of the drain.
func rest(drain context.Context) (context.Context, context.CancelFunc) {
	deadline, _ := drain.Deadline()
	return context.WithTimeout(context.Background(), max(time.Until(deadline), minRest))
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
	done := s.guard(ctx, "Start", s.hooks.Start)
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

// stop calls the Stop hook with what is left of the drain.
func (s *server) stop(drain context.Context) error {
	if s.hooks.Stop == nil {
		return nil
	}
	ctx, cancel := rest(drain)
	defer cancel()
	done := s.guard(ctx, "Stop", s.hooks.Stop)
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

// guard calls a hook in a goroutine and turns its panic into an error. The stack
// is a line of its own, so that the one with the error stays short.
func (s *server) guard(ctx context.Context, name string, hook func(context.Context) error) (done <-chan error) {
	outcome := make(chan error, 1)
	go func() {
		err := errGone
		defer func() {
			if v := recover(); v != nil {
				s.logger.Error("panic in "+name, zap.ByteString("exception.stacktrace", debug.Stack()))
				err = fmt.Errorf("it panicked: %v", v)
			}
			outcome <- err
		}()
		err = hook(ctx)
	}()
	return outcome
}
