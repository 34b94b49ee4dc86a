package runtime

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// A single calls user code that answers whoever asks, at most once at a time.
// All that ask while it runs wait for the same answer, so that a call that hangs
// costs one goroutine, and not one for each that asks.
type single[T any] struct {
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

// errGone is the answer of a call that ended its goroutine.
var errGone = errors.New("it ended its goroutine")

// ask returns the answer, or why ctx ended before. A panic of the call is an
// error.
func (s *single[T]) ask(ctx context.Context) (T, error) {
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
func (s *single[T]) start() *answer[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running == nil {
		s.running = &answer[T]{done: make(chan struct{}), err: errGone}
		go s.run(s.running)
	}
	return s.running
}

func (s *single[T]) run(a *answer[T]) {
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
