package exchange

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// requestContext is the server's context of the request, with the exchange and a deadline. It
// is embedded in the exchange, to save an allocation. It creates a channel for Done only when it
// is needed.
//
// The context.WithDeadline of the standard library would allocate more. It would also end for
// handlers of hijacked connections, which have no time limit.
type requestContext struct {
	base     context.Context
	exchange *Exchange
	limit    *timeLimit // nil for none
	expired  atomic.Bool

	once   sync.Once
	waited *cancelable // made by wait
}

// A timeLimit is the time limit of the requests of a server, and the cause of a context that
// exceeded it.
type timeLimit struct {
	duration time.Duration
	cause    error
}

// A cancelable is created by a requestContext when its end is first waited for.
type cancelable struct {
	context.Context
	cancel context.CancelCauseFunc
}

type contextKey struct{}

// wait returns a context that ends with this one. It creates it at the first call.
func (c *requestContext) wait() *cancelable {
	c.once.Do(func() {
		ctx, cancel := context.WithCancelCause(c.base)
		c.waited = &cancelable{ctx, cancel}
	})
	return c.waited
}

// expire ends the context because its deadline has passed.
func (c *requestContext) expire() {
	c.expired.Store(true) // first, because the cause may be read as soon as the context has ended
	c.wait().cancel(c.limit.cause)
}

// Deadline implements [context.Context].
func (c *requestContext) Deadline() (time.Time, bool) {
	if c.limit == nil || c.exchange.hijacked.Load() {
		return c.base.Deadline()
	}
	return c.exchange.Start.Add(c.limit.duration), true
}

// Done implements [context.Context].
func (c *requestContext) Done() <-chan struct{} {
	if c.limit == nil {
		return c.base.Done()
	}
	return c.wait().Done()
}

// Err implements [context.Context].
func (c *requestContext) Err() error {
	if c.base.Err() == nil && !c.expired.Load() {
		return nil // avoids the allocation
	}
	waited := c.wait()
	err := waited.Err()
	if err != nil && c.limit != nil && context.Cause(waited) == c.limit.cause { //nolint:errorlint // compares identity
		return context.DeadlineExceeded
	}
	return err
}

// Value implements [context.Context]. [context.Cause] uses it to find the cause after the
// deadline.
func (c *requestContext) Value(key any) any {
	if key == (contextKey{}) {
		return c.exchange
	}
	if c.expired.Load() {
		return c.wait().Value(key)
	}
	return c.base.Value(key)
}

// AfterFunc saves the context package a goroutine for each derived context.
func (c *requestContext) AfterFunc(f func()) (stop func() bool) {
	if c.limit == nil {
		return context.AfterFunc(c.base, f)
	}
	return context.AfterFunc(c.wait(), f)
}
