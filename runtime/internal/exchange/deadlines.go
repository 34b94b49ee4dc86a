package exchange

import (
	"net/http"
	"time"

	"goless.io/runtime/internal/netconn"
)

// control calls f with what sets the deadlines of the connection or stream, unless the
// server's writer was released. It has a lock of its own, and not that of the
// response: whoever wants to end a write that hangs must not wait for the write.
func (w *writer) control(f func(*http.ResponseController) error) error {
	w.controlMu.Lock()
	defer w.controlMu.Unlock()
	if w.released {
		return errReturned
	}
	return f(http.NewResponseController(w.inner))
}

func (w *writer) setReadDeadline(deadline time.Time) error {
	return w.control(func(c *http.ResponseController) error { return c.SetReadDeadline(deadline) })
}

func (w *writer) setWriteDeadline(deadline time.Time) error {
	return w.control(func(c *http.ResponseController) error { return c.SetWriteDeadline(deadline) })
}

// past is a deadline that ends at once what waits.
var past = time.Unix(1, 0)

// SetReadDeadline is for [http.ResponseController]. From then on it takes the place of
// the stall timeout for the body. The limit of the request's time stays.
func (w *writer) SetReadDeadline(deadline time.Time) error {
	if b := w.exchange.body; b != nil {
		b.stall.disabled.Store(true)
		b.unread.disabled.Store(true)
	}
	return w.setReadDeadline(deadline)
}

// SetWriteDeadline is for [http.ResponseController]. From then on it takes the place
// of the stall timeout for the response. The limit of the request's time stays.
func (w *writer) SetWriteDeadline(deadline time.Time) error {
	w.stall.disabled.Store(true)
	return w.setWriteDeadline(deadline)
}

// SetWriteDeadline is for [http.ResponseController]. The connection has to know that it is
// the handler who sets the deadline, or wants none. For net/http, too, sets none after each
// request, and then the stall timeout holds again.
func (w http1) SetWriteDeadline(deadline time.Time) error {
	return w.control(func(*http.ResponseController) error {
		return netconn.FromContext(w.exchange.ctx.base).SetHandlerWriteDeadline(deadline)
	})
}

// EnableFullDuplex is for [http.ResponseController]. From then on the server does not read
// the body before it writes the header.
func (w *writer) EnableFullDuplex() error {
	w.fullDuplex.Store(true)
	return w.control((*http.ResponseController).EnableFullDuplex)
}

// release is the last use of the server's writer. What the server still has to read or
// write for the exchange must make progress, too.
func (x *Exchange) release() {
	if b := x.body; b != nil && b.unread.enabled() && !b.ended.Load() {
		_ = x.setReadDeadline(time.Now().Add(b.unread.limit)) // the server throws the rest of the body away
	}
	if x.stall.enabled() {
		_ = x.setWriteDeadline(time.Now().Add(x.stall.limit)) // it may fail only as the response does
	}
	x.controlMu.Lock()
	x.released = true
	x.controlMu.Unlock()
}
