package exchange

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// writer is the response writer that handlers get. It remembers the final
// status and counts the bytes of the body; it changes nothing that goes over
// the wire, but for the header that ends a connection while the server drains.
//
// When the exchange is settled it lets nothing through any longer: the server
// may use its own writer for another request by then.
//
// What depends on the protocol is added by [http1] and [http2], so that a type
// assertion by the handler finds the same as on the server's own writer.
type writer struct {
	inner    http.ResponseWriter
	draining *atomic.Bool
	control  control

	over   atomic.Bool // the time is, and whoever has the lock next says so
	ending atomic.Bool // the handler has returned

	// mu is held while the server's writer is used. A write to a client that
	// does not read can take long.
	mu       sync.Mutex
	state    state
	header   http.Header // the handler's own, nil if it uses the server's
	bytes    int64
	status   int  // 0 until the final header is written
	copying  bool // within ReadFrom, or a panic left it
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

// Status returns the final status that was sent: 200 if the handler wrote
// nothing, 101 if it took over the connection, and 0 if the connection was
// aborted without an answer.
func (w *writer) Status() int {
	switch {
	case w.status != 0:
		return w.status
	case w.hijacked:
		return http.StatusSwitchingProtocols
	case w.aborted && !w.copying:
		return 0
	default:
		return http.StatusOK
	}
}

// Bytes returns the bytes of the body that the handler wrote. It is 0 once the
// handler took over the connection.
func (w *writer) Bytes() int64 { return w.bytes }

// Aborted reports whether the connection was cut instead of answered to the end.
func (w *writer) Aborted() bool { return w.aborted }

// Abort ends the connection, so that the client cannot take what it got for an
// answer. It does not return.
func (w *writer) Abort() {
	if w.open() == nil {
		w.aborted = true
		w.mu.Unlock()
	}
	panic(http.ErrAbortHandler)
}

// Begun reports whether it is too late for another answer: some of this one
// may be on its way, or the connection is no longer ours.
func (w *writer) Begun() bool {
	if w.open() != nil {
		return true
	}
	defer w.mu.Unlock()
	return w.begun()
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
	informational := 100 <= status && status <= 199 && status != http.StatusSwitchingProtocols
	if w.status == 0 {
		w.publish(informational)
	}
	w.inner.WriteHeader(status) // panics if the status is out of range
	if !informational && w.status == 0 {
		w.status = status
	}
}

func (w *writer) Write(p []byte) (int, error) {
	if err := w.open(); err != nil {
		return 0, err
	}
	defer w.mu.Unlock()
	w.implicitHeader()
	n, err := w.inner.Write(p)
	w.bytes += int64(n)
	return n, w.reason(err)
}

// WriteString is part of [io.StringWriter].
func (w *writer) WriteString(s string) (int, error) {
	if err := w.open(); err != nil {
		return 0, err
	}
	defer w.mu.Unlock()
	w.implicitHeader()
	n, err := io.WriteString(w.inner, s)
	w.bytes += int64(n)
	return n, w.reason(err)
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
	return w.reason(http.NewResponseController(w.inner).Flush())
}

// implicitHeader is called before what makes the server write the header.
func (w *writer) implicitHeader() {
	if w.status == 0 {
		w.publish(false)
		w.status = http.StatusOK
	}
	w.control.extendWrite(w.inner)
}

// publish brings the handler's header to where the server looks for it.
func (w *writer) publish(informational bool) {
	if w.header != nil {
		header := w.inner.Header()
		clear(header)
		for name, values := range w.header {
			header[name] = append([]string(nil), values...)
		}
	}
	if !informational {
		w.closeIfDraining()
	}
}

// closeIfDraining asks the client for a new connection next time. An idle
// connection is not closed under a client that may be sending at that moment;
// it is told with an answer. HTTP/2 turns the header into GOAWAY.
func (w *writer) closeIfDraining() {
	if w.draining.Load() && !w.begun() {
		w.inner.Header()["Connection"] = []string{"close"}
	}
}
