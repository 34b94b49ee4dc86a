package exchange

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"sync"

	"goless.io/runtime/internal/wire"
)

// closeNotifier is [http.CloseNotifier], which is deprecated but offered by
// the server and asked for by old code.
type closeNotifier interface{ CloseNotify() <-chan bool }

// http1Writer and http2Writer are what the server's own writers offer.
type (
	http1Writer interface {
		http.Hijacker
		io.ReaderFrom
		closeNotifier
	}
	http2Writer interface {
		http.Pusher
		closeNotifier
	}
)

// newExchange wraps w by what it can do. The second result is what handlers
// get: the exchange as a response writer of the right protocol.
func (s *Server) newExchange(w http.ResponseWriter) (*Exchange, http.ResponseWriter) {
	var x *Exchange
	var outer http.ResponseWriter
	switch w.(type) {
	case http1Writer:
		one := new(http1)
		x, outer = &one.Exchange, one
	case http2Writer:
		two := new(http2)
		x, outer = &two.Exchange, two
		x.control.stall = s.Stall
	default:
		x = new(Exchange)
		outer = x
	}
	x.inner, x.draining, x.server = w, &s.Draining, s
	return x, outer
}

type http1 struct{ Exchange }

// ReadFrom keeps the way of sendfile and splice open. Other sources take the
// ordinary way: one that is slow to begin must not keep the response locked.
func (w *http1) ReadFrom(src io.Reader) (int64, error) {
	if !kernelCopies(src) {
		buffer := buffers.Get().(*[32 << 10]byte)
		defer buffers.Put(buffer)
		return io.CopyBuffer(struct{ io.Writer }{w}, src, buffer[:])
	}
	if err := w.open(); err != nil {
		return 0, err
	}
	defer w.mu.Unlock()
	w.closeIfDraining()
	w.copying = true
	n, err := w.inner.(io.ReaderFrom).ReadFrom(src)
	w.copying = false
	w.bytes += n
	if n > 0 && w.status == 0 {
		w.status = http.StatusOK
	}
	return n, w.reason(err)
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// kernelCopies reports whether the kernel may be able to copy from src into a
// connection.
func kernelCopies(src io.Reader) bool {
	if limited, ok := src.(*io.LimitedReader); ok {
		src = limited.R
	}
	switch src.(type) {
	case *os.File, *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// Hijack is part of [http.Hijacker]. The connection is the handler's from then
// on, without any limit of ours.
func (w *http1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := w.open(); err != nil {
		return nil, nil, err
	}
	defer w.mu.Unlock()
	conn, rw, err := w.inner.(http.Hijacker).Hijack()
	if err != nil {
		return conn, rw, err
	}
	w.hijacked = true
	w.ctx.exempt.Store(true)
	conn = wire.Unwrap(conn)
	rw.Writer.Reset(conn)
	return conn, rw, nil
}

// CloseNotify is part of [http.CloseNotifier].
func (w *http1) CloseNotify() <-chan bool { return w.closeNotify() }

type http2 struct{ Exchange }

// Push is part of [http.Pusher].
func (w *http2) Push(target string, opts *http.PushOptions) error {
	if err := w.open(); err != nil {
		return err
	}
	defer w.mu.Unlock()
	return w.inner.(http.Pusher).Push(target, opts)
}

// CloseNotify is part of [http.CloseNotifier].
func (w *http2) CloseNotify() <-chan bool { return w.closeNotify() }

func (w *writer) closeNotify() <-chan bool {
	if w.open() != nil {
		return nil
	}
	defer w.mu.Unlock()
	return w.inner.(closeNotifier).CloseNotify()
}
