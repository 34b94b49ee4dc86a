package exchange

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// requestContext is the server's context of the request, with the exchange and
// a deadline in it. It is a part of the exchange so that both are one
// allocation, and what can be waited for is made only once somebody does.
//
// The standard library's own context with a deadline would be more allocations, and
// would also end for a handler that took over its connection, which may go on for
// ever.
type requestContext struct {
	base     context.Context
	exchange *Exchange
	limit    *timeLimit // nil for none
	expired  atomic.Bool

	once   sync.Once
	waited *cancelable // made by wait
}

// A timeLimit is how long the requests of a server may take, and why the context
// of one that takes longer has ended.
type timeLimit struct {
	duration time.Duration
	cause    error
}

// A cancelable is what a requestContext makes once somebody waits for its end.
type cancelable struct {
	context.Context
	cancel context.CancelCauseFunc
}

type contextKey struct{}

// wait returns what ends when the context ends, and makes it at the first call.
func (c *requestContext) wait() *cancelable {
	c.once.Do(func() {
		ctx, cancel := context.WithCancelCause(c.base)
		c.waited = &cancelable{ctx, cancel}
	})
	return c.waited
}

// expire ends the context because its deadline has passed.
func (c *requestContext) expire() {
	c.expired.Store(true) // at first: whoever sees the end may ask for its cause
	c.wait().cancel(c.limit.cause)
}

// Deadline is part of [context.Context].
func (c *requestContext) Deadline() (time.Time, bool) {
	if c.limit == nil || c.exchange.hijacked.Load() {
		return c.base.Deadline()
	}
	return c.exchange.Start.Add(c.limit.duration), true
}

// Done is part of [context.Context].
func (c *requestContext) Done() <-chan struct{} {
	if c.limit == nil {
		return c.base.Done()
	}
	return c.wait().Done()
}

// Err is part of [context.Context].
func (c *requestContext) Err() error {
	if c.base.Err() == nil && !c.expired.Load() {
		return nil // nothing has to be made for that
	}
	waited := c.wait()
	err := waited.Err()
	if err != nil && c.limit != nil && context.Cause(waited) == c.limit.cause { //nolint:errorlint // the very error
		return context.DeadlineExceeded
	}
	return err
}

// Value is part of [context.Context]. After the deadline [context.Cause] finds
// the cause by it.
func (c *requestContext) Value(key any) any {
	if key == (contextKey{}) {
		return c.exchange
	}
	if c.expired.Load() {
		return c.wait().Value(key)
	}
	return c.base.Value(key)
}

// AfterFunc saves the context package a goroutine for each context that is
// derived from this one.
func (c *requestContext) AfterFunc(f func()) (stop func() bool) {
	if c.limit == nil {
		return context.AfterFunc(c.base, f)
	}
	return context.AfterFunc(c.wait(), f)
}
