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

// closeNotifier is the deprecated [http.CloseNotifier]. The server implements it, and old
// frameworks panic without it.
type closeNotifier interface{ CloseNotify() <-chan bool }

// http1Writer contains the methods that only the HTTP/1 writer of the server has. Its HTTP/2
// writer implements closeNotifier and [http.Pusher]. Handlers do not get the latter, because
// browsers do not support push.
type http1Writer interface {
	http.Hijacker
	io.ReaderFrom
	closeNotifier
}

// newExchange creates the exchange for w. The second result is the response writer for the
// handler, which depends on the protocol. It is a pointer into the exchange and needs no
// allocation.
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

// CloseNotify implements [http.CloseNotifier].
func (w *writer) CloseNotify() <-chan bool {
	if w.lockIfActive() != nil {
		return nil
	}
	defer w.mu.Unlock()
	return w.inner.(closeNotifier).CloseNotify()
}

// http1 is a writer with the methods that only HTTP/1 supports.
type http1 struct{ *writer }

// Hijack implements [http.Hijacker]. The runtime sets no more limits for the connection, and
// counts it as a request in flight until the handler returns.
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

// ReadFrom uses sendfile for regular files if the write needs no stall timer. Other sources are
// copied: they may block, which would hold the lock of the response and look like a stalled
// client.
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

// regular reports whether src is a regular file, whose reads do not block. The file may be
// wrapped in the unexported type of [os.File.WriteTo].
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
