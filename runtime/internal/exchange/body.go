package exchange

import (
	"io"
	"net/http"
	"sync/atomic"
)

// body is the body of a request whose client has to keep sending while the
// handler reads, and also when the server reads what the handler has not. It counts
// what the handler reads.
type body struct {
	io.ReadCloser
	exchange *Exchange
	// The server puts the trailers into its own request, where the handler, which has
	// another one, would not find them.
	serverRequest, handlerRequest *http.Request

	stall  stallTimer
	unread stallTimer   // of the server's reads, where stall has no limit
	bytes  atomic.Int64 // that the handler has read
	ended  atomic.Bool  // a read has returned an error, io.EOF as a rule
	closed atomic.Bool  // the handler has closed it, over HTTP/1
}

func newBody(x *Exchange, serverRequest, handlerRequest *http.Request) *body {
	b := &body{ReadCloser: serverRequest.Body, exchange: x, serverRequest: serverRequest, handlerRequest: handlerRequest}
	interrupt := func() { _ = x.setReadDeadline(past) } // it may have ended meanwhile
	b.stall.limit, b.stall.interrupt = x.server.Stall, interrupt
	b.unread.limit, b.unread.interrupt = x.server.Unread, interrupt
	return b
}

// Read is part of [io.Reader].
func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	b.stall.begin()
	n, err := b.ReadCloser.Read(p)
	b.stall.end()
	b.bytes.Add(int64(n))
	if err != nil {
		if err != io.EOF && (b.stall.expired.Load() || b.unread.expired.Load()) {
			b.exchange.stalled.Store(true)
		}
		b.ended.Store(true)
		b.handlerRequest.Trailer = b.serverRequest.Trailer // a new map if the header has not announced them
	}
	return n, err
}

// Close is part of [io.Closer]. Over HTTP/1 the server's own Close reads the rest of the
// body, and waits for a client that does not send it. That is left to the server, which
// does it when the handler has returned.
func (b *body) Close() error {
	if b.serverRequest.ProtoMajor == 1 {
		b.closed.Store(true)
		return nil
	}
	return b.ReadCloser.Close()
}

// RequestBytes returns the bytes of the request's body that the handler read.
func (x *Exchange) RequestBytes() int64 {
	if x.body == nil {
		return 0
	}
	return x.body.bytes.Load()
}
