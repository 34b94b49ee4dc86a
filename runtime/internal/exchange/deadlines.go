package exchange

import (
	"net/http"
	"time"

	"goless.io/runtime/internal/netconn"
)

// control calls f with a controller that sets the deadlines of the connection or stream. It
// fails if the server's writer was released. It does not use the lock of the response, so that
// a blocked write can be interrupted.
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

// past is a deadline that immediately ends pending reads or writes.
var past = time.Unix(1, 0)

// SetReadDeadline is called by [http.ResponseController]. The deadline replaces the stall
// timeout of the body. The time limit of the request still applies.
func (w *writer) SetReadDeadline(deadline time.Time) error {
	if b := w.exchange.body; b != nil {
		b.stall.disabled.Store(true)
		b.unread.disabled.Store(true)
	}
	return w.setReadDeadline(deadline)
}

// SetWriteDeadline is called by [http.ResponseController]. The deadline replaces the stall
// timeout of the response. The time limit of the request still applies.
func (w *writer) SetWriteDeadline(deadline time.Time) error {
	w.stall.disabled.Store(true)
	return w.setWriteDeadline(deadline)
}

// SetWriteDeadline is called by [http.ResponseController]. A deadline of the handler replaces
// the stall timeout, even the zero time. net/http sets the zero time after each request, which
// restores the stall timeout. This method lets the connection distinguish the two.
func (w http1) SetWriteDeadline(deadline time.Time) error {
	return w.control(func(*http.ResponseController) error {
		return netconn.FromContext(w.exchange.ctx.base).SetHandlerWriteDeadline(deadline)
	})
}

// EnableFullDuplex is called by [http.ResponseController]. The server then does not read the
// body before it writes the header.
func (w *writer) EnableFullDuplex() error {
	w.fullDuplex.Store(true)
	return w.control((*http.ResponseController).EnableFullDuplex)
}

// release ends the use of the server's writer. It sets deadlines for what the server still
// reads and writes for the exchange.
func (x *Exchange) release() {
	if b := x.body; b != nil && b.unread.enabled() && !b.ended.Load() {
		_ = x.setReadDeadline(time.Now().Add(b.unread.limit)) // the server discards the rest of the body
	}
	if x.stall.enabled() {
		_ = x.setWriteDeadline(time.Now().Add(x.stall.limit)) // fails only if the response does
	}
	x.controlMu.Lock()
	x.released = true
	x.controlMu.Unlock()
}
