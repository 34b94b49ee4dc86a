package exchange

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"goless.io/runtime/internal/wire"
)

// writer is the response writer that handlers get. It remembers the final
// status and counts the bytes of the body; it changes nothing that goes over
// the wire, but for the header that ends a connection while the server drains.
//
// When the exchange is settled it lets nothing through any longer: the server
// may use its own writer for another request by then.
//
// What depends on the protocol is added by [http1] and [http2], so that a type
// assertion by the handler finds the same as on the server's own writer, and
// nothing else: what an [Exchange] can do is not in its method set.
type writer struct {
	inner    http.ResponseWriter
	exchange *Exchange // that it is a part of
	control  control
	stall    stall // of HTTP/2; the connections of HTTP/1 have theirs in package wire

	over   atomic.Bool // the time is, and whoever has the lock next says so
	ending atomic.Bool // the handler has returned

	// mu is held while the server's writer is used. A write to a client that
	// does not read can take long.
	mu       sync.Mutex
	state    state
	header   http.Header // the handler's own, nil if it uses the server's
	bytes    int64
	before   int64 // what the connection had sent when the final header was published
	status   int   // 0 until the final header is written
	copying  bool  // within ReadFrom, or a panic left it
	hijacked bool
	aborted  bool
}

// state says whether an exchange is settled, and how.
type state uint8

const (
	running state = iota
	returned
	expired
)

// errReturned is what a goroutine gets that writes when its handler has returned.
var errReturned = errors.New("runtime: the handler has returned, its response is closed")

// open locks the response. It returns an error, without the lock, if the
// exchange is settled or is about to be.
func (w *writer) open() error {
	w.mu.Lock()
	switch {
	case w.state == returned:
		w.mu.Unlock()
		return errReturned
	case w.state == expired || w.over.Load():
		w.mu.Unlock()
		return http.ErrHandlerTimeout
	}
	return nil
}

// reason returns why a write failed with err: it may have been interrupted.
func (w *writer) reason(err error) error {
	if err != nil && w.over.Load() {
		return http.ErrHandlerTimeout
	}
	return err
}

func (w *writer) begun() bool { return w.status != 0 || w.copying || w.hijacked }

// Header is part of [http.ResponseWriter].
func (w *writer) Header() http.Header {
	if w.header != nil {
		return w.header
	}
	return w.inner.Header()
}

// WriteHeader is part of [http.ResponseWriter].
func (w *writer) WriteHeader(status int) {
	if w.open() != nil {
		return
	}
	defer w.mu.Unlock()
	if w.status == 0 {
		w.publish(status)
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

// piece is how much of a response has to get on within the time of a stall.
const piece = 64 << 10

func write[T string | []byte](w *writer, p T, to func(T) (int, error)) (n int, err error) {
	if err := w.open(); err != nil {
		return 0, err
	}
	defer w.mu.Unlock()
	w.implicitHeader()
	size, stall := len(p), w.stalls()
	if stall.limit > 0 {
		size = piece
	}
	for {
		stall.begin()
		written, err := to(p[n:min(n+size, len(p))])
		stall.done()
		n += written
		w.bytes += int64(written)
		if err != nil || n == len(p) {
			return n, w.reason(err)
		}
	}
}

// stalls returns what ends a write that does not get on. On HTTP/1 the connection
// does so itself, but before the server writes a header it reads what the handler
// has left of the request's body.
func (w *writer) stalls() *stall {
	if b := w.exchange.body; b != nil && w.stall.limit == 0 && !b.ended.Load() {
		return &b.stall
	}
	return &w.stall
}

// Flush is part of [http.Flusher].
func (w *writer) Flush() {
	_ = w.FlushError() // Flush has no way to tell
}

// FlushError is Flush for callers that want to know.
func (w *writer) FlushError() error {
	if err := w.open(); err != nil {
		return err
	}
	defer w.mu.Unlock()
	w.implicitHeader()
	stall := w.stalls()
	stall.begin()
	defer stall.done()
	return w.reason(http.NewResponseController(w.inner).Flush())
}

// implicitHeader is called before what makes the server write the header.
func (w *writer) implicitHeader() {
	if w.status == 0 {
		w.publish(http.StatusOK)
		w.status = http.StatusOK
	}
}

func informational(status int) bool {
	return 100 <= status && status <= 199 && status != http.StatusSwitchingProtocols
}

// publish brings the handler's header to where the server looks for it, and to
// the final one adds ours. They come last, so that a handler that passes on the
// header of another function's answer finds nothing in its way.
func (w *writer) publish(status int) {
	header := w.inner.Header()
	if w.header != nil {
		clear(header)
		for name, values := range w.header {
			header[name] = append([]string(nil), values...)
		}
	}
	if informational(status) {
		return
	}
	if ctx := &w.exchange.ctx; ctx.limit != nil {
		w.before = wire.Of(ctx.base).Sent()
	}
	w.exchange.echoIDs(header)
	// An idle connection is not closed under a client that may be sending at that
	// moment; it is told with an answer. HTTP/2 turns the header into GOAWAY.
	if w.exchange.server.Draining.Load() && status != http.StatusSwitchingProtocols {
		header["Connection"] = []string{"close"}
	}
}
