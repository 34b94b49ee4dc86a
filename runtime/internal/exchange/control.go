package exchange

import (
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// control sets the deadlines of an exchange's connection or stream. It has a
// lock of its own: whoever wants to end a write that hangs must not wait for
// the write.
type control struct {
	mu    sync.Mutex
	gone  bool // the server's writer must not be touched any more
	owned atomic.Bool

	stall time.Duration // of writes, 0 for none
	until int64         // the deadline of writes that is set, in ns of the Unix time
}

// do calls f with the server's writer while there is one.
func (c *control) do(inner http.ResponseWriter, f func(*http.ResponseController) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return errReturned
	}
	return f(http.NewResponseController(inner))
}

// extendWrite moves the deadline of the writes of an HTTP/2 stream on when a
// quarter of it is used up, for to set one is not free. The connections of
// HTTP/1 have theirs in package wire. It is called with the writer's lock.
func (c *control) extendWrite(inner http.ResponseWriter) {
	if c.stall == 0 || c.owned.Load() {
		return
	}
	if now := time.Now(); c.until-now.UnixNano() < int64(c.stall*3/4) {
		deadline := now.Add(c.stall)
		c.until = deadline.UnixNano()
		_ = http.NewResponseController(inner).SetWriteDeadline(deadline) // the writer may have none
	}
}

// SetReadDeadline is for [http.ResponseController]. From then on the body has
// no deadline but this.
func (x *Exchange) SetReadDeadline(deadline time.Time) error {
	if x.body != nil {
		x.body.owned.Store(true)
	}
	return x.control.do(x.inner, func(c *http.ResponseController) error { return c.SetReadDeadline(deadline) })
}

// SetWriteDeadline is for [http.ResponseController]. From then on the response
// has no deadline but this.
func (x *Exchange) SetWriteDeadline(deadline time.Time) error {
	x.control.owned.Store(true)
	return x.control.do(x.inner, func(c *http.ResponseController) error { return c.SetWriteDeadline(deadline) })
}

// EnableFullDuplex is for [http.ResponseController].
func (x *Exchange) EnableFullDuplex() error {
	return x.control.do(x.inner, (*http.ResponseController).EnableFullDuplex)
}

// leave is the last use of the server's writer.
func (x *Exchange) leave() {
	if x.body != nil && !x.body.ended.Load() {
		x.body.extend() // the server throws away what comes of the rest
	}
	x.control.mu.Lock()
	x.control.gone = true
	x.control.mu.Unlock()
}
