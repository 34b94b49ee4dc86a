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

// writer is the response writer of handlers. It records the final status and counts the bytes
// of the body. It adds the request ID to the header of some responses (see sendRequestID) and,
// while the server drains, Connection: close. It changes nothing else.
//
// When the exchange is settled, all calls fail, because the server may already use its own
// writer for another request.
//
// It has the methods of the server's HTTP/2 writer, except Push; [http1] adds those of HTTP/1.
// So type assertions by the handler give the same results as with net/http. It does not have
// the other methods of [Exchange].
type writer struct {
	inner    http.ResponseWriter // the server's writer
	exchange *Exchange           // contains this writer
	stall    stallTimer          // for HTTP/2; for HTTP/1 see package netconn

	controlMu sync.Mutex // see control
	released  bool       // the server's writer must no longer be used

	ending   atomic.Bool // the handler has returned
	timedOut atomic.Bool // the request timed out while the lock was held, see settle.go
	hijacked atomic.Bool // the connection is hijacked

	fullDuplex atomic.Bool // over HTTP/1, the handler reads while it writes
	stalled    atomic.Bool // a read or write of the handler failed, because the client made no progress

	// mu is the lock of the response. It is held while the server's writer is used. A write to
	// a client that does not read may hold it for long.
	mu            sync.Mutex
	state         state
	copying       bool        // ReadFrom runs, or has panicked
	aborted       bool        // see Aborted
	header        http.Header // of the handler, nil if it uses that of the server
	status        int         // 0 until the final header is written
	bytes         int64       // of the body
	contentLength int64       // required length of the body, -1 if unknown
	sentBefore    int64       // bytes sent on the connection before the final header
}

// errReturned is the error of a write after the handler has returned.
var errReturned = errors.New("runtime: the handler has returned, its response is closed")

// writeError returns the error for the handler, given the error of the server's writer, and
// records whether the response is incomplete. w.mu must be held.
func (w *writer) writeError(err error) error {
	switch {
	case err == nil, w.hijacked.Load(), errors.Is(err, http.ErrBodyNotAllowed), errors.Is(err, http.ErrContentLength):
		return err // an error of the handler; the response may still be complete
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

// Header implements [http.ResponseWriter].
func (w *writer) Header() http.Header {
	if w.header != nil {
		return w.header
	}
	return w.inner.Header()
}

// WriteHeader implements [http.ResponseWriter].
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

// WriteString implements [io.StringWriter].
func (w *writer) WriteString(s string) (int, error) {
	return write(w, s, func(s string) (int, error) { return io.WriteString(w.inner, s) })
}

// writeSize is how many bytes of a response must be written within the stall timeout.
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
			return n, err // exceeds Content-Length; the error of HTTP/2 is unexported
		case err != nil || n == len(p):
			return n, w.writeError(err)
		}
	}
}

// writeTimer returns the timer that interrupts a write without progress. Over HTTP/1 the
// connection has its own timeout for that. But before the server writes a header, it reads the
// rest of the request's body, which may stall as well.
func (w *writer) writeTimer() *stallTimer {
	b := w.exchange.body
	switch {
	case b == nil || w.stall.interrupt != nil || b.ended.Load(): // the second condition is HTTP/2
		return &w.stall
	case b.stall.limit > 0:
		return &b.stall
	case w.fullDuplex.Load():
		return &w.stall
	default:
		return &b.unread
	}
}

// Flush implements [http.Flusher].
func (w *writer) Flush() {
	_ = w.FlushError() // Flush has no result
}

// FlushError is called by [http.ResponseController].
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

// implicitHeader is called before operations that make the server write the header.
func (w *writer) implicitHeader() {
	if w.status == 0 {
		w.prepareHeader(http.StatusOK)
		w.status = http.StatusOK
	}
}

func informational(status int) bool {
	return 100 <= status && status <= 199 && status != http.StatusSwitchingProtocols
}

// prepareHeader copies the handler's header to that of the server and, if status is final, adds
// ours. Ours are added last, so that a handler that copies the header of another function's
// response does not conflict with them.
func (w *writer) prepareHeader(status int) {
	header := w.inner.Header()
	if w.header != nil {
		clear(header)
		for name, values := range w.header {
			header[name] = slices.Clone(values) // the handler may change its header later
		}
	}
	if informational(status) {
		return
	}
	if w.exchange.ErrorType != ErrorRejected {
		delete(header, RejectedHeader) // copied from another function's response; this function was called
	}
	if ctx := &w.exchange.ctx; ctx.limit != nil {
		w.sentBefore = netconn.FromContext(ctx.base).Sent()
	}
	w.contentLength = w.bodyLength(status, header)
	w.exchange.sendRequestID(header, status)
	// Idle connections are not closed, because a client may be sending a request at that
	// moment. It is asked to close the connection in the response instead. HTTP/2 converts the
	// header to GOAWAY.
	if w.exchange.server.Draining.Load() && status != http.StatusSwitchingProtocols {
		header["Connection"] = []string{"close"}
	}
}

// bodyLength returns the required length of the body of a final response according to its
// header, or -1 if the length is not restricted or there is no body.
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
		return -1 // net/http drops this one as well
	}
	return n
}

func bodyAllowed(status int) bool {
	return status >= http.StatusOK && status != http.StatusNoContent && status != http.StatusNotModified
}
