package exchange

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// writer is the response writer that handlers get. It remembers the final
// status and counts the bytes of the body; it changes nothing that goes over
// the wire, but for the header that ends a connection while the server drains.
//
// What depends on the protocol is added by [http1] and [http2], so that a type
// assertion by the handler finds the same as on the server's own writer. The
// rest (deadlines, full duplex) is reached by [http.ResponseController]
// through Unwrap.
type writer struct {
	inner    http.ResponseWriter
	draining *atomic.Bool
	bytes    int64
	status   int  // 0 until the final header is written
	copying  bool // within ReadFrom, or a panic left it
	hijacked bool
	aborted  bool
}

// newExchange wraps w by what it can do. The second result is what handlers
// get: the exchange as a response writer of the right protocol.
func newExchange(w http.ResponseWriter) (*Exchange, http.ResponseWriter) {
	switch w.(type) {
	case http1Writer:
		x := new(http1)
		x.inner = w
		return &x.Exchange, x
	case http2Writer:
		x := new(http2)
		x.inner = w
		return &x.Exchange, x
	default:
		x := new(Exchange)
		x.inner = w
		return x, x
	}
}

// Status returns the final status that was sent, or will be when the handler
// returns: 200 if it wrote nothing, 101 if it took over the connection, and 0
// if the connection is aborted without an answer.
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

// Hijacked reports whether the handler took over the connection.
func (w *writer) Hijacked() bool { return w.hijacked }

// Abort ends the connection, so that the client cannot take what it got for an
// answer. It does not return.
func (w *writer) Abort() {
	w.aborted = true
	panic(http.ErrAbortHandler)
}

// Aborted reports whether the exchange ended with Abort.
func (w *writer) Aborted() bool { return w.aborted }

// Begun reports whether it is too late for another answer: some of this one
// may be on its way, or the connection is no longer ours.
func (w *writer) Begun() bool { return w.status != 0 || w.copying || w.hijacked }

// Unwrap is for [http.ResponseController].
func (w *writer) Unwrap() http.ResponseWriter { return w.inner }

func (w *writer) Header() http.Header { return w.inner.Header() }

func (w *writer) WriteHeader(status int) {
	informational := 100 <= status && status <= 199 && status != http.StatusSwitchingProtocols
	if !informational {
		w.closeIfDraining()
	}
	w.inner.WriteHeader(status) // panics if the status is out of range
	if !informational && w.status == 0 {
		w.status = status
	}
}

func (w *writer) Write(p []byte) (int, error) {
	w.implicitHeader()
	n, err := w.inner.Write(p)
	w.bytes += int64(n)
	return n, err
}

func (w *writer) WriteString(s string) (int, error) {
	w.implicitHeader()
	n, err := io.WriteString(w.inner, s)
	w.bytes += int64(n)
	return n, err
}

func (w *writer) Flush() {
	_ = w.FlushError() // Flush has no way to tell
}

// FlushError is Flush for callers that want to know.
func (w *writer) FlushError() error {
	w.implicitHeader()
	return http.NewResponseController(w.inner).Flush()
}

// implicitHeader is called before what makes the server write the header.
func (w *writer) implicitHeader() {
	if w.status == 0 {
		w.closeIfDraining()
		w.status = http.StatusOK
	}
}

// closeIfDraining asks the client for a new connection next time. An idle
// connection is not closed under a client that may be sending at that moment;
// it is told with an answer. HTTP/2 turns the header into GOAWAY.
func (w *writer) closeIfDraining() {
	if w.draining.Load() && !w.Begun() {
		w.inner.Header()["Connection"] = []string{"close"}
	}
}

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

type http1 struct{ Exchange }

// ReadFrom keeps the way of sendfile and splice open.
func (w *http1) ReadFrom(src io.Reader) (int64, error) {
	w.closeIfDraining()
	w.copying = true
	n, err := w.inner.(io.ReaderFrom).ReadFrom(src)
	w.copying = false
	w.bytes += n
	if n > 0 && w.status == 0 {
		w.status = http.StatusOK
	}
	return n, err
}

func (w *http1) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := w.inner.(http.Hijacker).Hijack()
	w.hijacked = w.hijacked || err == nil
	return conn, rw, err
}

func (w *http1) CloseNotify() <-chan bool { return w.inner.(closeNotifier).CloseNotify() }

type http2 struct{ Exchange }

func (w *http2) Push(target string, opts *http.PushOptions) error {
	return w.inner.(http.Pusher).Push(target, opts)
}

func (w *http2) CloseNotify() <-chan bool { return w.inner.(closeNotifier).CloseNotify() }
