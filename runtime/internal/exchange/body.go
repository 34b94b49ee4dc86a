package exchange

import (
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// body is the body of a request whose client has to keep sending: a deadline
// moves on with every read. It counts what the handler reads.
type body struct {
	io.ReadCloser
	exchange *Exchange
	owned    atomic.Bool  // the handler sets deadlines itself
	until    atomic.Int64 // the deadline that is set, since the exchange began
	bytes    atomic.Int64
	ended    atomic.Bool
}

// Read is part of [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.ReadCloser.Read(p)
	b.bytes.Add(int64(n))
	if err != nil {
		b.ended.Store(true)
	}
	return n, err
}

// extend moves the deadline on when a quarter of it is used up, for to set one
// is not free.
func (b *body) extend() {
	x := b.exchange
	limit := x.server.Stall
	if limit == 0 || b.owned.Load() {
		return
	}
	now := time.Since(x.Start)
	if time.Duration(b.until.Load())-now > limit*3/4 {
		return
	}
	b.until.Store(int64(now + limit))
	_ = x.control.do(x.inner, func(c *http.ResponseController) error { // the writer may have none
		return c.SetReadDeadline(x.Start.Add(now + limit))
	})
}

// RequestBytes returns the bytes of the request's body that the handler read.
func (x *Exchange) RequestBytes() int64 {
	if x.body == nil {
		return 0
	}
	return x.body.bytes.Load()
}
