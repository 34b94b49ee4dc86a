package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A sharedCall calls a function of the user's, at most once at a time. Everybody
// who asks while it runs gets the same answer, so that a call that hangs costs one
// goroutine and not one for each question.
type sharedCall[T any] struct {
	call func() (T, error)

	mu      sync.Mutex
	running *answer[T]
}

// answer is the outcome of one call, once it is done.
type answer[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// errGoexit is the answer of a call that ended its goroutine.
var errGoexit = errors.New("it ended its goroutine")

// ask returns the answer, or why ctx ended before. A panic of the call is an
// error.
func (s *sharedCall[T]) ask(ctx context.Context) (T, error) {
	a := s.start()
	select {
	case <-a.done:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// start returns the call that runs, or a new one.
func (s *sharedCall[T]) start() *answer[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = &answer[T]{done: make(chan struct{}), err: errGoexit}
		go s.run(s.running)
	}
	return s.running
}

func (s *sharedCall[T]) run(a *answer[T]) {
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
