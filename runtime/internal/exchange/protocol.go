package exchange

import (
	"bufio"
	"io"
	"io/fs"
	"net"
	"net/http"
	"sync"
	"syscall"

	"goless.io/runtime/internal/netconn"
)

// closeNotifier is [http.CloseNotifier], which is deprecated. The server offers it,
// and frameworks that have been in use for long panic without it.
type closeNotifier interface{ CloseNotify() <-chan bool }

// http1Writer is what the server's own writer offers over HTTP/1. Over HTTP/2 that is
// closeNotifier and [http.Pusher], which handlers do not get: browsers do not take what
// is pushed.
type http1Writer interface {
	http.Hijacker
	io.ReaderFrom
	closeNotifier
}

// newExchange wraps w by what it can do. The second result is what handlers
// get: the exchange's response writer of the right protocol. It is a pointer
// into the exchange and costs nothing.
func (s *Server) newExchange(w http.ResponseWriter) (*Exchange, http.ResponseWriter) {
	x := &Exchange{server: s}
	x.inner, x.exchange, x.contentLength = w, x, -1
	if _, ok := w.(http1Writer); ok {
		return x, http1{&x.writer}
	}
	x.stall.limit, x.stall.interrupt = s.Stall, x.interruptWrite
	return x, &x.writer
}

func (x *Exchange) interruptWrite() { _ = x.setWriteDeadline(past) } // the stream may have ended meanwhile

// CloseNotify is part of [http.CloseNotifier].
func (w *writer) CloseNotify() <-chan bool {
	if w.lockIfActive() != nil {
		return nil
	}
	defer w.mu.Unlock()
	return w.inner.(closeNotifier).CloseNotify()
}

// http1 is a writer with what only HTTP/1 can do.
type http1 struct{ *writer }

// Hijack is part of [http.Hijacker]. The runtime sets no limits for the connection from then on, and counts
// it as a request in flight until the handler returns.
func (w http1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if err := w.lockIfActive(); err != nil {
		return nil, nil, err
	}
	defer w.mu.Unlock()
	conn, rw, err := w.inner.(http.Hijacker).Hijack()
	if err != nil {
		return conn, rw, err
	}
	w.hijacked.Store(true)
	conn = netconn.Unwrap(conn)
	rw.Writer.Reset(conn) // it wrote to the wrapper
	return conn, rw, nil
}

// ReadFrom keeps the way of sendfile open. All sources but files take the
// ordinary way: one that is silent must not keep the response locked, nor may
// its pauses count against the client.
func (w http1) ReadFrom(src io.Reader) (int64, error) {
	if w.writeTimer().limit > 0 || !regular(src) {
		buffer := buffers.Get().(*[32 << 10]byte)
		defer buffers.Put(buffer)
		return io.CopyBuffer(struct{ io.Writer }{w}, src, buffer[:])
	}
	if err := w.lockIfActive(); err != nil {
		return 0, err
	}
	defer w.mu.Unlock()
	if w.status == 0 {
		w.prepareHeader(http.StatusOK)
	}
	w.copying = true
	n, err := w.inner.(io.ReaderFrom).ReadFrom(src)
	w.copying = false
	w.bytes += n
	if n > 0 && w.status == 0 {
		w.status = http.StatusOK
	}
	return n, w.writeError(err)
}

var buffers = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// regular reports whether src is a file that never lets us wait. It may be the
// one that [os.File.WriteTo] wraps, which has no type that could be named.
func regular(src io.Reader) bool {
	if limited, ok := src.(*io.LimitedReader); ok {
		src = limited.R
	}
	file, ok := src.(interface {
		fs.File
		io.Seeker
		syscall.Conn
	})
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode().IsRegular()
}
