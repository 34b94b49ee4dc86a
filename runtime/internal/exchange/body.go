package exchange

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// body is the body of a request whose client has to keep sending while the
// handler reads. It counts what the handler reads.
type body struct {
	io.ReadCloser
	stall stall
	bytes atomic.Int64
	ended atomic.Bool
}

func newBody(x *Exchange, inner io.ReadCloser) *body {
	b := &body{ReadCloser: inner}
	b.stall.limit, b.stall.end = x.server.Stall, func() { x.endRead(past) }
	return b
}

// past is a deadline that interrupts what waits.
var past = time.Unix(1, 0)

// endRead sets the deadline of reads; the writer may have none.
func (x *Exchange) endRead(deadline time.Time) {
	_ = x.control.do(x.inner, func(c *http.ResponseController) error { return c.SetReadDeadline(deadline) })
}

// Read is part of [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.stall.begin()
	n, err := b.ReadCloser.Read(p)
	b.stall.done()
	b.bytes.Add(int64(n))
	if err != nil {
		b.ended.Store(true)
	}
	return n, err
}

// RequestBytes returns the bytes of the request's body that the handler read.
func (x *Exchange) RequestBytes() int64 {
	if x.body == nil {
		return 0
	}
	return x.body.bytes.Load()
}
