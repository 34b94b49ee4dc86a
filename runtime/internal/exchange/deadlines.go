package exchange

import (
	"net/http"
	"sync"
	"time"

	"goless.io/runtime/internal/wire"
)

// deadlines is the way to the deadlines of an exchange's connection or stream. It
// has a lock of its own: whoever wants to end a write that hangs must not wait
// for the write.
type deadlines struct {
	mu       sync.Mutex
	released bool // the server's writer must not be touched any more
}

// do calls f with the server's writer until the exchange has released it.
func (d *deadlines) do(inner http.ResponseWriter, f func(*http.ResponseController) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.released {
		return errReturned
	}
	return f(http.NewResponseController(inner))
}

// SetReadDeadline is for [http.ResponseController]. From then on it takes the place of
// the stall timeout for the body. The limit of the request's time stays.
func (w *writer) SetReadDeadline(deadline time.Time) error {
	if b := w.exchange.body; b != nil {
		b.stall.handlerSetDeadline.Store(true)
	}
	return w.deadlines.do(w.inner, func(c *http.ResponseController) error { return c.SetReadDeadline(deadline) })
}

// SetWriteDeadline is for [http.ResponseController]. From then on it takes the place
// of the stall timeout for the response. The limit of the request's time stays.
func (w *writer) SetWriteDeadline(deadline time.Time) error {
	w.stall.handlerSetDeadline.Store(true)
	return w.endWrite(deadline)
}

// SetWriteDeadline is for [http.ResponseController]. The connection is told that it is
// the handler's, since the server sets none as well, after each request.
func (w http1) SetWriteDeadline(deadline time.Time) error {
	conn := wire.FromContext(w.exchange.ctx.base)
	if conn == nil {
		return w.writer.SetWriteDeadline(deadline)
	}
	return w.deadlines.do(w.inner, func(*http.ResponseController) error { return conn.SetHandlerWriteDeadline(deadline) })
}

// EnableFullDuplex is for [http.ResponseController].
func (w *writer) EnableFullDuplex() error {
	return w.deadlines.do(w.inner, (*http.ResponseController).EnableFullDuplex)
}

// past is a deadline that interrupts what waits.
var past = time.Unix(1, 0)

// endRead sets the deadline of reads; the writer may have none.
func (x *Exchange) endRead(deadline time.Time) {
	_ = x.deadlines.do(x.inner, func(c *http.ResponseController) error { return c.SetReadDeadline(deadline) })
}

// endWrite sets the deadline of writes.
func (w *writer) endWrite(deadline time.Time) error {
	return w.deadlines.do(w.inner, func(c *http.ResponseController) error { return c.SetWriteDeadline(deadline) })
}

// release is the last use of the server's writer. What the server still has to
// read or write for the exchange must make progress, too.
func (x *Exchange) release() {
	limit := x.server.Stall
	if limit > 0 && x.body != nil && !x.body.ended.Load() && !x.body.stall.handlerSetDeadline.Load() {
		x.endRead(time.Now().Add(limit)) // the server throws the rest away
	}
	if x.stall.limit > 0 && !x.stall.handlerSetDeadline.Load() {
		_ = x.endWrite(time.Now().Add(limit)) // it may fail only as the response does
	}
	x.deadlines.mu.Lock()
	x.deadlines.released = true
	x.deadlines.mu.Unlock()
}
