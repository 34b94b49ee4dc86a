package proxy

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
)

// What connections and requests take of memory, in bytes, with what the garbage collector has not
// collected yet. TestCosts compares them with what is used.
const (
	// maxHeader is the longest header of a request. A longer one is answered 431.
	maxHeader = 16 << 10

	// maxAnswerHeader is the longest header of an answer. A function with a longer one is answered 502.
	maxAnswerHeader = 32 << 10

	// connectionCost is that of a connection: its goroutines, and its buffers in this process and in the kernel.
	connectionCost = 24 << 10

	// http2Cost is what one of HTTP/2 takes beyond that, and http2Most the most that it buffers of what
	// it has received.
	http2Cost = 44 << 10
	http2Most = http2Connection + maxHeader

	// requestCost is that of a request, beyond its header.
	requestCost = 8 << 10

	// lineCost is that of a line of a header, beyond its bytes.
	lineCost = 128

	// servedCost is what a request takes when it is passed on, beyond its header: the connection to the
	// pod with its goroutines and buffers. One of HTTP/2 has up to http2Stream of the answer beyond that.
	servedCost = 40 << 10
)

// The buffers of a connection of a client in the kernel, which doubles them for its own needs, and what the
// server buffers of the bodies of a connection and of a stream of HTTP/2, in bytes.
const (
	receiveBuffer   = 16 << 10
	sendBuffer      = 32 << 10
	http2Connection = 128 << 10
	http2Stream     = 64 << 10 // which clients may send before they know of any bound
)

// A connection of a client is charged to the budget for connections. One of HTTP/1 is not while it has a
// request, which is charged for both: they end together.
type connection struct {
	net.Conn
	server *Server
	party  party

	mu       sync.Mutex
	charge   *charge // nil while a request is charged for the connection
	received int64   // what is charged for what it has received
	requests int     // that are held or served
	http2    bool
	closed   bool
}

// connectionKey is the key, in the context of a request, of the connection by which it has come.
type connectionKey struct{}

func connectionOf(ctx context.Context) *connection {
	return ctx.Value(connectionKey{}).(*connection) //nolint:forcetypeassert // as listeners make it
}

func (s *Server) newConnection(conn net.Conn, namespace string) *connection {
	c := &connection{Conn: conn, server: s, party: party{conn.RemoteAddr().String(), namespace}}
	if host, _, err := net.SplitHostPort(c.party.address); err == nil {
		c.party.address = host
	}
	c.charge = s.connections.add(c.party, connectionCost, c.cut)
	return c
}

// cut ends the connection, and all requests on it.
func (c *connection) cut() {
	if conn, ok := c.Conn.(*net.TCPConn); ok {
		_ = conn.SetLinger(0) // what the client does not read must not stay in memory
	}
	_ = c.Conn.Close() // the server then closes c
}

// Read is part of [net.Conn]. What comes is charged for until there is a request, and in HTTP/2 as far as
// it may be buffered.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	cost := int64(n)
	switch {
	case c.charge == nil: // it is closed, or this is the body of a request of HTTP/1, which is not buffered
		cost = 0
	case c.http2:
		cost = min(cost, http2Most-c.received)
	default:
		cost += cost + lineCost*int64(bytes.Count(p[:n], []byte("\n")))
	}
	if cost > 0 {
		c.received += cost
		c.charge.grow(cost)
	}
	return n, err
}

// Close is part of [net.Conn].
func (c *connection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.release()
	return c.Conn.Close()
}

// release ends the charge. The caller must hold the lock.
func (c *connection) release() {
	if c.charge != nil {
		c.charge.end()
	}
	c.charge, c.received = nil, 0
}

// begin counts a request, and returns what has to be charged for it. end counts that it is over.
func (c *connection) begin(r *http.Request) (cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	switch {
	case r.ProtoMajor != 2:
		c.release()
		return connectionCost + costOf(r)
	case c.charge == nil: // it is closed
	case !c.http2:
		c.http2 = true
		c.charge.grow(http2Cost + min(c.received, http2Most) - c.received)
		c.received = min(c.received, http2Most)
		fallthrough
	case c.requests == 1:
		c.charge.setBusy(true)
	}
	return costOf(r)
}

func (c *connection) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests--
	switch {
	case c.requests > 0 || c.closed:
	case c.charge == nil:
		c.charge = c.server.connections.add(c.party, connectionCost, c.cut)
	default: // the bodies that it has buffered are gone
		c.charge.setBusy(false)
		c.charge.grow(-c.received)
		c.received = 0
	}
}

// costOf returns the cost of a request that is held, with its header, which is copied when it is passed on, and
// what the kernel has of its body.
func costOf(r *http.Request) int64 {
	text, lines := len(r.Method)+len(r.RequestURI)+len(r.Host), 1
	for name, values := range r.Header {
		lines += len(values)
		for _, value := range values {
			text += len(name) + len(value)
		}
	}
	body := r.ContentLength
	if body < 0 || body > receiveBuffer {
		body = receiveBuffer
	}
	return requestCost + 2*int64(text+lineCost*lines) + 2*body
}
