package exchange

import (
	"io"
	"net/http"
	"sync/atomic"
)

// body is the body of a request whose client has to keep sending while the
// handler reads. It counts what the handler reads.
type body struct {
	io.ReadCloser
	server, handler *http.Request // of which the first gets the trailers

	stall idleTimer
	bytes atomic.Int64
	ended atomic.Bool
}

func newBody(x *Exchange, server, handler *http.Request) *body {
	b := &body{ReadCloser: server.Body, server: server, handler: handler}
	b.stall.limit, b.stall.end = x.server.Stall, func() { x.endRead(past) }
	return b
}

// Read is part of [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.stall.begin()
	n, err := b.ReadCloser.Read(p)
	b.stall.done()
	b.bytes.Add(int64(n))
	if err != nil {
		b.ended.Store(true)
		b.handler.Trailer = b.server.Trailer // a new map if the header has not announced them
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
