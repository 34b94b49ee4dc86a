package exchange

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"goless.io/runtime/internal/netconn"
)

// writer is the response writer that handlers get. It remembers the final
// status and counts the bytes of the body. To the header it adds the ids of the
// request, and while the server drains what ends the connection. Nothing else that
// goes over the wire is changed.
//
// When the exchange is settled it lets nothing through any longer: the server
// may use its own writer for another request by then.
//
// It has the methods of the server's own writer over HTTP/2, and [http1] adds those of
// HTTP/1, so that a type assertion by the handler finds the same as there. What else an
// [Exchange] can do is not among them.
type writer struct {
	inner    http.ResponseWriter // the server's own
	exchange *Exchange           // that it is a part of
	stall    stallTimer          // of HTTP/2; the connections of HTTP/1 have theirs in package netconn

	controlMu sync.Mutex // see control
	released  bool       // the server's writer must not be used any more

	ending   atomic.Bool // the handler has returned
	timedOut atomic.Bool // the time was over while somebody had the lock: see settle.go
	hijacked atomic.Bool // the handler took over the connection

	fullDuplex atomic.Bool // the handler reads while it writes, over HTTP/1
	stalled    atomic.Bool // a read or write of the handler's has failed, as the client made no progress

	// mu is the lock of the response. It is held while the server's writer is used, and a
	// write to a client that does not read can take long.
	mu            sync.Mutex
	state         state
	copying       bool        // ReadFrom runs, or has panicked
	aborted       bool        // see Aborted
	header        http.Header // the handler's own, nil if it uses the server's
	status        int         // 0 until the final header is written
	bytes         int64       // of the body
	contentLength int64       // of the body that has to come, -1 if nobody has said
	sentBefore    int64       // bytes that the connection had sent when the final header was prepared
}

// errReturned is what a goroutine gets that writes when its handler has returned.
var errReturned = errors.New("runtime: the handler has returned, its response is closed")

// writeError returns what the handler gets for an error of the server's writer, and
// notes that the client lacks the rest of the answer. It is called with the lock.
func (w *writer) writeError(err error) error {
	switch {
	case err == nil, w.hijacked.Load(), errors.Is(err, http.ErrBodyNotAllowed), errors.Is(err, http.ErrContentLength):
		return err // the handler's mistake, which the client need not notice
	case w.timedOut.Load(): // the write was interrupted
		return http.ErrHandlerTimeout
	}
	w.aborted = true
	if w.stall.expired.Load() || netconn.FromContext(w.exchange.ctx.base).Stalled() {
		w.stalled.Store(true)
	}
	return err
}

func (w *writer) begun() bool { return w.status != 0 || w.copying || w.hijacked.Load() }

// Header is part of [http.ResponseWriter].
func (w *writer) Header() http.Header {
	if w.header != nil {
		return w.header
	}
	return w.inner.Header()
}

// WriteHeader is part of [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.lockIfActive() != nil {
		return
	}
	defer w.mu.Unlock()
	if w.status == 0 {
		w.prepareHeader(status)
	}
	w.inner.WriteHeader(status) // panics if the status is out of range
	if !informational(status) && w.status == 0 {
		w.status = status
	}
}

func (w *writer) Write(p []byte) (int, error) { return write(w, p, w.inner.Write) }

// WriteString is part of [io.StringWriter].
func (w *writer) WriteString(s string) (int, error) {
	return write(w, s, func(s string) (int, error) { return io.WriteString(w.inner, s) })
}

// writeSize is how many bytes of a response have to be written within the stall timeout.
const writeSize = 64 << 10

func write[T string | []byte](w *writer, p T, to func(T) (int, error)) (n int, err error) {
	if err := w.lockIfActive(); err != nil {
		return 0, err
	}
	defer w.mu.Unlock()
	w.implicitHeader()
	size, timer := len(p), w.writeTimer()
	if timer.limit > 0 {
		size = writeSize
	}
	for {
		timer.begin()
		written, err := to(p[n:min(n+size, len(p))])
		timer.end()
		n += written
		w.bytes += int64(written)
		switch {
		case err != nil && w.contentLength >= 0 && w.bytes+int64(len(p)-n) > w.contentLength:
			return n, err // more than the header says, for which HTTP/2 has an error without a name
		case err != nil || n == len(p):
			return n, w.writeError(err)
		}
	}
}

// writeTimer returns what interrupts a write that makes no progress. On HTTP/1 the
// connection does so itself, but before the server writes a header it reads what the
// handler has not read of the request's body, which may stall as well.
func (w *writer) writeTimer() *stallTimer {
	b := w.exchange.body
	switch {
	case b == nil || w.stall.interrupt != nil || b.ended.Load(): // the second is HTTP/2
		return &w.stall
	case b.stall.limit > 0:
		return &b.stall
	case w.fullDuplex.Load():
		return &w.stall
	default:
		return &b.unread
	}
}

// Flush is part of [http.Flusher].
func (w *writer) Flush() {
	_ = w.FlushError() // Flush has no way to tell
}

// FlushError is Flush for callers that want to know.
func (w *writer) FlushError() error {
	if err := w.lockIfActive(); err != nil {
		return err
	}
	defer w.mu.Unlock()
	w.implicitHeader()
	timer := w.writeTimer()
	timer.begin()
	defer timer.end()
	return w.writeError(http.NewResponseController(w.inner).Flush())
}

// implicitHeader is called before what makes the server write the header.
func (w *writer) implicitHeader() {
	if w.status == 0 {
		w.prepareHeader(http.StatusOK)
		w.status = http.StatusOK
	}
}

func informational(status int) bool {
	return 100 <= status && status <= 199 && status != http.StatusSwitchingProtocols
}

// prepareHeader brings the handler's header to where the server looks for it, and to
// the final one adds ours. They come last, so that a handler that passes on the
// header of another function's answer finds nothing in its way.
func (w *writer) prepareHeader(status int) {
	header := w.inner.Header()
	if w.header != nil {
		clear(header)
		for name, values := range w.header {
			header[name] = slices.Clone(values) // the handler may go on with its own
		}
	}
	if informational(status) {
		return
	}
	if w.exchange.ErrorType != ErrorRejected {
		delete(header, RejectedHeader) // it is of another function, and this one has seen the request
	}
	if ctx := &w.exchange.ctx; ctx.limit != nil {
		w.sentBefore = netconn.FromContext(ctx.base).Sent()
	}
	w.contentLength = w.bodyLength(status, header)
	w.exchange.echoIDs(header)
	// An idle connection is not closed under a client that may be sending at that
	// moment; it is told with an answer. HTTP/2 turns the header into GOAWAY.
	if w.exchange.server.Draining.Load() && status != http.StatusSwitchingProtocols {
		header["Connection"] = []string{"close"}
	}
}

// bodyLength returns how long the body of a final answer has to be by its header,
// and -1 if any length is right or there is no body.
func (w *writer) bodyLength(status int, header http.Header) int64 {
	lengths := header["Content-Length"]
	if len(lengths) == 0 || w.exchange.Method == http.MethodHead || !bodyAllowed(status) {
		return -1
	}
	if len(header["Transfer-Encoding"]) > 0 {
		return -1 // with both, net/http drops the length
	}
	n, err := strconv.ParseInt(lengths[0], 10, 64)
	if err != nil || n < 0 {
		return -1 // this one, too
	}
	return n
}

func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}
