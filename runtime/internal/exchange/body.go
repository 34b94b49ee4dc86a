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
	// The server puts the trailers into its own request, where the handler, which has
	// another one, would not find them.
	serverRequest, handlerRequest *http.Request

	stall stallTimer
	bytes atomic.Int64 // that the handler has read
	ended atomic.Bool  // a read has returned an error, io.EOF as a rule
}

func newBody(x *Exchange, serverRequest, handlerRequest *http.Request) *body {
	b := &body{ReadCloser: serverRequest.Body, serverRequest: serverRequest, handlerRequest: handlerRequest}
	b.stall.limit = x.server.Stall
	b.stall.interrupt = func() { _ = x.setReadDeadline(past) } // it may have ended meanwhile
	return b
}

// Read is part of [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	b.stall.begin()
	n, err := b.ReadCloser.Read(p)
	b.stall.end()
	b.bytes.Add(int64(n))
	if err != nil {
		b.ended.Store(true)
		b.handlerRequest.Trailer = b.serverRequest.Trailer // a new map if the header has not announced them
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
