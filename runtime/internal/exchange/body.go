package exchange

import (
	"io"
	"net/http"
	"sync/atomic"
)

// body is the body of a request. It limits how long the client may send nothing while the
// handler reads, and while the server reads what the handler has not read. It counts the bytes
// that the handler reads.
type body struct {
	io.ReadCloser
	exchange *Exchange
	// The server sets the trailers in its own request. They are copied to the request of the
	// handler, which is a different one.
	serverRequest, handlerRequest *http.Request

	stall  stallTimer
	unread stallTimer   // for reads by the server, if stall has no limit
	bytes  atomic.Int64 // read by the handler
	ended  atomic.Bool  // a read has returned an error, usually io.EOF
	closed atomic.Bool  // the handler has closed it, over HTTP/1
}

func newBody(x *Exchange, serverRequest, handlerRequest *http.Request) *body {
	b := &body{ReadCloser: serverRequest.Body, exchange: x, serverRequest: serverRequest, handlerRequest: handlerRequest}
	interrupt := func() { _ = x.setReadDeadline(past) } // the request may have ended meanwhile
	b.stall.limit, b.stall.interrupt = x.server.Stall, interrupt
	b.unread.limit, b.unread.interrupt = x.server.Unread, interrupt
	return b
}

// Read implements [io.Reader].
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
		b.handlerRequest.Trailer = b.serverRequest.Trailer // a new map if the header did not announce them
	}
	return n, err
}

// Close implements [io.Closer]. Over HTTP/1 it does not close the server's body, because that
// would read the rest and wait for a client that does not send it. The server does so after the
// handler has returned.
func (b *body) Close() error {
	if b.serverRequest.ProtoMajor == 1 {
		b.closed.Store(true)
		return nil
	}
	return b.ReadCloser.Close()
}

// RequestBytes returns how many bytes of the request's body the handler has read.
func (x *Exchange) RequestBytes() int64 {
	if x.body == nil {
		return 0
	}
	return x.body.bytes.Load()
}
