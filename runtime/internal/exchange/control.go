package exchange

import (
	"net/http"
	"sync"
	"time"
)

// control is the way to the deadlines of an exchange's connection or stream. It
// has a lock of its own: whoever wants to end a write that hangs must not wait
// for the write.
type control struct {
	mu   sync.Mutex
	gone bool // the server's writer must not be touched any more
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

// SetReadDeadline is for [http.ResponseController]. From then on the body has
// no deadline but this.
func (w *writer) SetReadDeadline(deadline time.Time) error {
	if b := w.exchange.body; b != nil {
		b.stall.owned.Store(true)
	}
	return w.control.do(w.inner, func(c *http.ResponseController) error { return c.SetReadDeadline(deadline) })
}

// SetWriteDeadline is for [http.ResponseController]. From then on the response
// has no deadline but this.
func (w *writer) SetWriteDeadline(deadline time.Time) error {
	w.stall.owned.Store(true)
	return w.endWrite(deadline)
}

// endWrite sets the deadline of writes.
func (w *writer) endWrite(deadline time.Time) error {
	return w.control.do(w.inner, func(c *http.ResponseController) error { return c.SetWriteDeadline(deadline) })
}

// EnableFullDuplex is for [http.ResponseController].
func (w *writer) EnableFullDuplex() error {
	return w.control.do(w.inner, (*http.ResponseController).EnableFullDuplex)
}

// leave is the last use of the server's writer. What the server still has to
// read or write for the exchange must get on, too.
func (x *Exchange) leave() {
	limit := x.server.Stall
	if limit > 0 && x.body != nil && !x.body.ended.Load() && !x.body.stall.owned.Load() {
		x.endRead(time.Now().Add(limit)) // what comes of the rest is thrown away
	}
	if x.stall.limit > 0 && !x.stall.owned.Load() {
		_ = x.endWrite(time.Now().Add(limit)) // it may fail only as the response does
	}
	x.control.mu.Lock()
	x.control.gone = true
	x.control.mu.Unlock()
}
