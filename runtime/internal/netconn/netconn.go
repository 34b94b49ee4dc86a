// Package netconn wraps the connections to a function. It sets a deadline for writes that make no progress,
// and writes the response on a connection whose handler has timed out. It does not parse requests.
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

// Listen returns a listener whose connections fail a write that makes no
// progress for stall, never if 0. It calls refused, unless that is nil, with the status
// of each answer of the server to an HTTP/1 request that it cannot read.
func Listen(inner net.Listener, stall time.Duration, refused func(status int, peer net.Addr)) net.Listener {
	return &listener{inner, stall, refused}
}

type listener struct {
	net.Listener
	stall   time.Duration
	refused func(int, net.Addr)
}

// Accept is part of [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Conn{Conn: conn, stall: l.stall, refused: l.refused}, nil
}

// A Conn is a connection of a listener that [Listen] made. It offers what
// net/http looks for in a TCP connection.
type Conn struct {
	net.Conn
	stall    time.Duration // how long a write may make no progress, 0 for any time
	refused  func(int, net.Addr)
	answered atomic.Bool  // by WriteFinalAndClose
	sent     atomic.Int64 // bytes
	stalled  atomic.Bool  // a write made no progress

	mu       sync.Mutex // of what follows, and of the deadlines of the connection below
	until    time.Time  // the deadline of writes that extend has set
	replaced bool       // somebody else has set the deadline of writes
	taken    bool       // Unwrap has given the connection away, and its deadlines with it
}

var (
	// errAnswered is what writes get after WriteFinalAndClose.
	errAnswered = errors.New("wire: the connection was answered already")
	// errTaken is what setting a deadline fails with after Unwrap.
	errTaken = errors.New("wire: the connection was taken over")
)

type contextKey struct{}

// Context is for [net/http.Server.ConnContext].
func Context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, contextKey{}, conn)
}

// FromContext returns the connection that the server's context of a request came over,
// nil if it is none of ours.
func FromContext(ctx context.Context) *Conn {
	conn, _ := ctx.Value(contextKey{}).(*Conn)
	return conn
}

// Unwrap returns the connection that the inner listener accepted, without any
// deadline, for a handler that takes it over. The wrapper still reads and writes,
// but can no longer change deadlines.
func Unwrap(conn net.Conn) net.Conn {
	c, ok := conn.(*Conn)
	if !ok {
		return conn
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken = true
	_ = c.Conn.SetDeadline(time.Time{}) // fails only if it is closed, as the next use will say
	return c.Conn
}

// chunkSize is how many bytes are written under one deadline. A client makes progress if
// it takes as many in three quarters of the stall timeout, however slow it is otherwise.
const chunkSize = 64 << 10

// Sent returns how many bytes were written to the connection. It is 0 for nil.
func (c *Conn) Sent() int64 {
	if c == nil {
		return 0
	}
	return c.sent.Load()
}

// Write is part of [net.Conn].
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

// refusalHeader is all that net/http writes between the status and the text where it
// cannot read a request. Answers of handlers have the ids of the request as well.
const refusalHeader = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"

// refusal returns the status if p is the answer to a request that the server cannot read,
// else 0. net/http has no hook for those.
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

// ReadFrom is part of [io.ReaderFrom]. It has the kernel copy where that is possible.
func (c *Conn) ReadFrom(src io.Reader) (n int64, err error) {
	to, ok := c.Conn.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, src)
	}
	// net looks for a file behind one LimitedReader, but not behind two.
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

// extend moves the deadline of writes on once a quarter of it is used up. Setting it
// for each write would cost more.
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
	_ = c.Conn.SetWriteDeadline(c.until) // the write that follows says what is wrong
}

// noteStall notes that a write has failed by the deadline that extend has set.
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

// Stalled reports whether a write has failed since the client took nothing for the stall
// timeout. It is false for nil.
func (c *Conn) Stalled() bool { return c != nil && c.stalled.Load() }

// SetReadDeadline is part of [net.Conn].
func (c *Conn) SetReadDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return errTaken
	}
	return c.Conn.SetReadDeadline(deadline)
}

// SetWriteDeadline is part of [net.Conn]. A deadline that is set by it takes the
// place of ours, until net/http clears it after the request.
func (c *Conn) SetWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return errTaken
	}
	if deadline.IsZero() && !c.replaced {
		return nil // ours may stay
	}
	c.replaced, c.until = !deadline.IsZero(), time.Time{}
	return c.Conn.SetWriteDeadline(deadline)
}

// SetHandlerWriteDeadline takes the place of ours until net/http clears deadlines after
// the request, even if it is the zero time, which is none.
func (c *Conn) SetHandlerWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taken {
		return errTaken
	}
	c.replaced, c.until = true, time.Time{}
	return c.Conn.SetWriteDeadline(deadline)
}

// SetDeadline is part of [net.Conn].
func (c *Conn) SetDeadline(deadline time.Time) error {
	return errors.Join(c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline))
}

// CloseWrite is what net/http calls before it closes a connection, so that the
// client can read the end of the answer.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// linger is how long a connection stays open after WriteFinalAndClose. If it were closed at
// once with data that nobody has read, the client might not get the answer.
const linger = 500 * time.Millisecond

// WriteFinalAndClose writes the last answer to the connection and closes it soon after. All
// writes after that fail.
func (c *Conn) WriteFinalAndClose(answer []byte) {
	if c.answered.Swap(true) {
		return
	}
	_ = c.SetWriteDeadline(time.Time{}) // a write may have been interrupted by one
	c.extend()
	if _, err := c.Conn.Write(answer); err == nil {
		_ = c.CloseWrite() // it is closed below in any case
	}
	time.AfterFunc(linger, func() { _ = c.Close() })
}
