// Package wire owns the connections to a function: the deadline of a write that
// makes no progress, and the last word on a connection whose handler has run out
// of time. It refuses to know requests and what is said over a connection.
package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Listen returns a listener whose connections fail a write that makes no
// progress for stall, for ever if 0.
func Listen(inner net.Listener, stall time.Duration) net.Listener {
	return &listener{inner, stall, new(patrol)}
}

type listener struct {
	net.Listener
	stall  time.Duration
	patrol *patrol
}

// Accept is part of [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: conn, stall: l.stall, patrol: l.patrol}
	l.patrol.add(c)
	return c, nil
}

// A Conn is a connection of a listener that [Listen] made. It offers what
// net/http looks for in a TCP connection.
type Conn struct {
	net.Conn
	stall    time.Duration
	until    atomic.Int64 // the deadline of writes that is set, since epoch
	owned    atomic.Bool  // somebody else sets the deadline of writes
	answered atomic.Bool
	sent     atomic.Int64

	patrol *patrol

	mu      sync.Mutex // of what follows, and of the deadlines of the connection below
	given   bool       // away: the deadlines are somebody else's
	read    int64      // the deadline of reads, since epoch, 0 for none
	readSet bool       // the connection below has one
}

var (
	// errAnswered is what writes get after Answer.
	errAnswered = errors.New("wire: the connection was answered already")
	// errGiven is what whoever sets a deadline gets after Unwrap.
	errGiven = errors.New("wire: the connection was given away")
)

type contextKey struct{}

// Context is for [net/http.Server.ConnContext].
func Context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, contextKey{}, conn)
}

// Of returns the connection that the server's context of a request came over,
// nil if it is none of ours.
func Of(ctx context.Context) *Conn {
	conn, _ := ctx.Value(contextKey{}).(*Conn)
	return conn
}

// Unwrap gives the connection away: it returns the one that the listener below
// ours accepted, without any deadline. What still reads through ours reads from
// that one, and cannot change its deadlines.
func Unwrap(conn net.Conn) net.Conn {
	c, ok := conn.(*Conn)
	if !ok {
		return conn
	}
	c.patrol.remove(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given = true
	_ = c.Conn.SetDeadline(time.Time{}) // fails only if it is closed, as the next use will say
	return c.Conn
}

// piece is how much is written under one deadline: 64 KiB within 45 seconds is
// progress, however slow.
const piece = 64 << 10

// Sent returns how many bytes went out over the connection, for comparison with
// what it was before. Nil has sent nothing.
func (c *Conn) Sent() int64 {
	if c == nil {
		return 0
	}
	return c.sent.Load()
}

// Write is part of [net.Conn].
func (c *Conn) Write(p []byte) (n int, err error) {
	for {
		if c.answered.Load() {
			return n, errAnswered
		}
		c.extend()
		end := min(n+piece, len(p))
		written, err := c.Conn.Write(p[n:end])
		c.sent.Add(int64(written))
		n += written
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// ReadFrom leaves the copying to the kernel where it can.
func (c *Conn) ReadFrom(src io.Reader) (n int64, err error) {
	to, ok := c.Conn.(io.ReaderFrom)
	if !ok {
		return io.Copy(struct{ io.Writer }{c}, src)
	}
	// The kernel's way is found through one limit, not through two.
	rest, limited := src.(*io.LimitedReader)
	if !limited {
		rest = &io.LimitedReader{R: src, N: 1<<63 - 1}
	}
	for rest.N > 0 {
		if c.answered.Load() {
			return n, errAnswered
		}
		c.extend()
		part := &io.LimitedReader{R: rest.R, N: min(rest.N, piece)}
		copied, err := to.ReadFrom(part)
		c.sent.Add(copied)
		n += copied
		rest.N -= copied
		if err != nil || part.N > 0 { // part.N > 0: the end of src
			return n, err
		}
	}
	return n, nil
}

// extend moves the deadline on when a quarter of it is used up, for to set one
// is not free.
func (c *Conn) extend() {
	if c.stall == 0 || c.owned.Load() {
		return
	}
	if c.stall > far && c.until.Load()-c.patrol.now.Load() > int64(c.stall*3/4) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given || c.owned.Load() {
		return
	}
	deadline := time.Now().Add(c.stall)
	c.until.Store(int64(deadline.Sub(epoch)))
	_ = c.Conn.SetWriteDeadline(deadline) // the write that follows says what is wrong
}

// SetWriteDeadline is part of [net.Conn]. While a deadline is set by it, ours
// is none; net/http clears it after each request.
func (c *Conn) SetWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given {
		return errGiven
	}
	if deadline.IsZero() && !c.owned.Swap(false) {
		return nil // ours may stay
	}
	c.owned.Store(!deadline.IsZero())
	c.until.Store(0)
	return c.Conn.SetWriteDeadline(deadline)
}

// SetDeadline is part of [net.Conn].
func (c *Conn) SetDeadline(deadline time.Time) error {
	return errors.Join(c.SetReadDeadline(deadline), c.SetWriteDeadline(deadline))
}

// Close is part of [net.Conn].
func (c *Conn) Close() error {
	c.patrol.remove(c)
	return c.Conn.Close()
}

// CloseWrite is what net/http looks for to end a connection gently.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// linger is how long a connection stays after an Answer. If it were closed at
// once, with something unread, the answer could be lost with it.
const linger = 500 * time.Millisecond

// Answer writes the last words to the connection, whatever anybody else wants to
// write, and closes it soon after.
func (c *Conn) Answer(words []byte) {
	if c.answered.Swap(true) {
		return
	}
	_ = c.SetWriteDeadline(time.Time{}) // a write may have been interrupted by one
	c.extend()
	if _, err := c.Conn.Write(words); err == nil {
		_ = c.CloseWrite() // it is closed below in any case
	}
	time.AfterFunc(linger, func() { _ = c.Close() })
}
