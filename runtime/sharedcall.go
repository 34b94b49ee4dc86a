package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A sharedCall calls a function of the user, at most once at a time. Concurrent callers share
// the result, so that a call that hangs blocks one goroutine and not one per caller.
type sharedCall[T any] struct {
	call func() (T, error)

	mu      sync.Mutex
	running *result[T]
}

// result is the result of one call. It is valid when done is closed.
type result[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// errGoexit is the error of a call that called [runtime.Goexit].
var errGoexit = errors.New("it ended its goroutine")

// do calls the function, or waits for the running call, and returns the result. It returns the
// cause of ctx if ctx ends first. A panic of the function is returned as an error.
func (s *sharedCall[T]) do(ctx context.Context) (T, error) {
	a := s.start()
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// start returns the running call, or starts a new one.
func (s *sharedCall[T]) start() *result[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = &result[T]{done: make(chan struct{}), err: errGoexit}
		go s.run(s.running)
	}
	return s.running
}

func (s *sharedCall[T]) run(a *result[T]) {
	defer func() {
		if v := recover(); v != nil {
			a.err = fmt.Errorf("it panicked: %v", v)
		}
		s.mu.Lock()
		s.running = nil
		s.mu.Unlock()
		close(a.done)
	}()
	a.value, a.err = s.call()
}
