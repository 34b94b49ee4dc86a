// Package netconn wraps the connections to a function. It limits the duration of writes that
// make no progress, and writes the response on a connection whose handler has timed out. It
// does not parse requests.
package netconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Listen wraps a listener. A write to one of its connections fails if it makes no progress for
// stallTimeout; 0 is no limit. If onRefused is not nil, it is called for each HTTP/1 request that
// the server cannot parse, with the status of the response.
func Listen(inner net.Listener, stallTimeout time.Duration, onRefused func(status int, peer net.Addr)) net.Listener {
	return &listener{inner, stallTimeout, onRefused}
}

type listener struct {
	net.Listener
	stall   time.Duration
	refused func(int, net.Addr)
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: conn, stall: l.stall, refused: l.refused}, nil
}

// A Conn is a connection that a listener of [Listen] accepted. It has the methods of a TCP
// connection that net/http uses.
type Conn struct {
	net.Conn
	stall    time.Duration // limit of a write without progress, 0 for none
	refused  func(int, net.Addr)
	answered atomic.Bool  // WriteFinalAndClose was called
	sent     atomic.Int64 // bytes
	stalled  atomic.Bool  // a write made no progress

	mu       sync.Mutex // guards the following fields and the deadlines of Conn
	until    time.Time  // write deadline set by extend
	replaced bool       // SetWriteDeadline has replaced the deadline of extend
	taken    bool       // Unwrap was called
}

var (
	// errAnswered is the error of writes after WriteFinalAndClose.
	errAnswered = errors.New("netconn: the connection was answered already")
	// errTaken is the error of setting a deadline after Unwrap.
	errTaken = errors.New("netconn: the connection was taken over")
)

type contextKey struct{}

// Context returns ctx with the connection, for FromContext. Use it as
// [net/http.Server.ConnContext].
func Context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, contextKey{}, conn)
}

// FromContext returns the connection of a request. ctx is the context that the server created for
// the request. FromContext returns nil if no listener of [Listen] accepted the connection.
func FromContext(ctx context.Context) *Conn {
	conn, _ := ctx.Value(contextKey{}).(*Conn)
	return conn
}

// Unwrap returns the wrapped connection and removes its deadlines, for a handler that hijacks the
// connection. After that, the wrapper can read and write, but not set deadlines.
func Unwrap(conn net.Conn) net.Conn {
	c, ok := conn.(*Conn)
	if !ok {
		return conn
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = true
	_ = c.Conn.SetDeadline(time.Time{}) // fails only if it is closed, which the next use reports
	return c.Conn
}

// chunkSize is the number of bytes that are written under one deadline. A client makes progress
// if it receives that many in three quarters of the stall timeout.
const chunkSize = 64 << 10

// Sent returns the number of bytes written to the connection. It returns 0 for nil.
func (c *Conn) Sent() int64 {
	if c == nil {
		return 0
	}
	return c.sent.Load()
}

// Write implements [net.Conn].
func (c *Conn) Write(p []byte) (n int, err error) {
	if status := refusal(p); status > 0 && c.refused != nil {
		c.refused(status, c.RemoteAddr())
	}
	for {
		if c.answered.Load() {
			return n, errAnswered
		}
		c.extend()
		end := min(n+chunkSize, len(p))
		written, err := c.Conn.Write(p[n:end])
		c.sent.Add(int64(written))
		n += written
		c.noteStall(err)
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// refusalHeader is what net/http writes between the status and the text of the response to a
// request that it cannot parse. Responses of handlers also contain a Date, unless the handler
// suppresses it.
const refusalHeader = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// refusal returns the status if p is the response to a request that the server cannot parse,
// and 0 otherwise. net/http has no hook for these responses.
func refusal(p []byte) (status int) {
	code, ok := bytes.CutPrefix(p, []byte("HTTP/1.1 "))
	if !ok || len(code) < 3 {
		return 0
	}
	if end := bytes.IndexByte(code, '\r'); end < 0 || !bytes.HasPrefix(code[end:], []byte(refusalHeader)) {
		return 0
	}
	status, _ = strconv.Atoi(string(code[:3]))
	return status
}

// ReadFrom implements [io.ReaderFrom]. It lets the kernel copy the data if possible.
func (c *Conn) ReadFrom(src io.Reader) (n int64, err error) {
	to, ok := c.Conn.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, src)
	}
	// Package net finds a file in one LimitedReader, but not in two nested ones.
	rest, limited := src.(*io.LimitedReader)
	if !limited {
		rest = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	for rest.N > 0 {
		if c.answered.Load() {
			return n, errAnswered
		}
		c.extend()
		part := &io.LimitedReader{R: rest.R, N: min(rest.N, chunkSize)}
		copied, err := to.ReadFrom(part)
		c.sent.Add(copied)
		c.noteStall(err)
		n += copied
		rest.N -= copied
		if err != nil || part.N > 0 { // part.N > 0: the end of src
			return n, err
		}
	}
	return n, nil
}

// extend extends the write deadline when a quarter of it has passed. That is cheaper than
// setting it for each write.
func (c *Conn) extend() {
	if c.stall == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken || c.replaced || time.Until(c.until) > c.stall*3/4 {
		return
	}
	c.until = time.Now().Add(c.stall)
	_ = c.Conn.SetWriteDeadline(c.until) // the next write reports the error
}

// noteStall records that a write has exceeded the deadline of extend.
func (c *Conn) noteStall(err error) {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.replaced {
		c.stalled.Store(true)
	}
}

// Stalled reports whether a write failed because the client received nothing for the stall
// timeout. It returns false for nil.
func (c *Conn) Stalled() bool { return c != nil && c.stalled.Load() }

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return errTaken
	}
	return c.Conn.SetReadDeadline(deadline)
}

// SetWriteDeadline implements [net.Conn]. The deadline replaces the stall timeout until
// net/http clears it after the request.
func (c *Conn) SetWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return errTaken
	}
	if deadline.IsZero() && !c.replaced {
		return nil // keeps the deadline of extend
	}
	c.replaced, c.until = !deadline.IsZero(), time.Time{}
	return c.Conn.SetWriteDeadline(deadline)
}

// SetHandlerWriteDeadline sets a deadline that replaces the stall timeout until net/http clears
// it after the request. The zero time is no deadline.
func (c *Conn) SetHandlerWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return errTaken
	}
	c.replaced, c.until = true, time.Time{}
	return c.Conn.SetWriteDeadline(deadline)
}

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(deadline time.Time) error {
	return errors.Join(c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline))
}

// CloseWrite is called by net/http before it closes a connection, so that the client receives
// the end of the response.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// linger is how long a connection stays open after WriteFinalAndClose. If it were closed
// immediately with unread data, the client might not receive the response.
const linger = 500 * time.Millisecond

// WriteFinalAndClose writes the last response to the connection and closes the connection 500
// milliseconds later. Later writes fail.
func (c *Conn) WriteFinalAndClose(answer []byte) {
	if c.answered.Swap(true) {
		return
	}
	_ = c.SetWriteDeadline(time.Time{}) // one may have been set to interrupt a write
	c.extend()
	if _, err := c.Conn.Write(answer); err == nil {
		_ = c.CloseWrite() // closed below in any case
	}
	time.AfterFunc(linger, func() { _ = c.Close() })
}
