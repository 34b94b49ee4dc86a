package proxy

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"sync"
)

// The memory cost of connections and requests in bytes, including garbage that is not collected
// yet. TestCosts compares it with the actual memory use.
const (
	// maxHeader is the maximum size of a request header. A larger one is rejected with 431.
	maxHeader = 16 << 10

	// maxResponseHeader is the maximum size of a response header. A larger one results in 502.
	maxResponseHeader = 32 << 10

	// connectionCost is the cost of a connection: its goroutines, and its buffers in this process
	// and in the kernel.
	connectionCost = 32 << 10

	// http2Cost is the additional cost of an HTTP/2 connection, and http2Most the most that it
	// buffers of the received data.
	http2Cost = 44 << 10
	http2Most = http2Connection + maxHeader

	// requestCost is the cost of a request without its header.
	requestCost = 8 << 10

	// lineCost is the cost of a header line in addition to its bytes.
	lineCost = 128

	// servedCost is the additional cost of a request that is being served: the connection to the
	// pod with its goroutines and buffers. HTTP/2 adds up to http2Stream for the response.
	servedCost = 40 << 10
)

// Buffer sizes in bytes: the kernel buffers of a client connection, which the kernel doubles, and
// the receive buffers of an HTTP/2 connection and stream.
const (
	receiveBuffer   = 16 << 10
	sendBuffer      = 32 << 10
	http2Connection = 128 << 10
	http2Stream     = 64 << 10 // the initial window, which clients may use before they receive the settings
)

// A connection is a client connection, charged to the budget for connections. While an HTTP/1
// connection serves a request, that request is charged for both, because they end together.
type connection struct {
	net.Conn
	server *Server
	tenant tenant

	mu       sync.Mutex
	charge   *charge // nil while a request is charged for the connection
	received int64   // charged cost of received data
	requests int     // held or being served
	http2    bool
	closed   bool
}

// connectionKey is the context key of the connection of a request.
type connectionKey struct{}

func connectionOf(ctx context.Context) *connection {
	return ctx.Value(connectionKey{}).(*connection) //nolint:forcetypeassert // listeners set it
}

func (s *Server) newConnection(conn net.Conn, namespace string) *connection {
	c := &connection{Conn: conn, server: s, tenant: tenant{conn.RemoteAddr().String(), namespace}}
	if host, _, err := net.SplitHostPort(c.tenant.address); err == nil {
		c.tenant.address = host
	}
	c.charge = s.connections.add(c.tenant, connectionCost, c.cut)
	return c
}

// cut closes the connection and cancels its requests.
func (c *connection) cut() {
	if conn, ok := c.Conn.(*net.TCPConn); ok {
		_ = conn.SetLinger(0) // discard unsent data
	}
	_ = c.Conn.Close() // the server then closes c
}

// Read implements [net.Conn]. It charges for received data until a request has been read, and on
// HTTP/2 up to the size of the receive buffers.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	cost := int64(n)
	switch {
	case c.charge == nil: // closed, or the body of an HTTP/1 request, which is not buffered
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

// Close implements [net.Conn].
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

// beginRequest counts a request and returns its cost. endRequest must be called when it is
// finished.
func (c *connection) beginRequest(r *http.Request) (cost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	switch {
	case r.ProtoMajor != 2:
		c.release()
		return connectionCost + costOf(r)
	case c.charge == nil: // closed
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

func (c *connection) endRequest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests--
	switch {
	case c.requests > 0 || c.closed:
	case c.charge == nil:
		c.charge = c.server.connections.add(c.tenant, connectionCost, c.cut)
		c.charge.setBusy(false)
	default: // no buffered bodies remain
		c.charge.setBusy(false)
		c.charge.grow(-c.received)
		c.received = 0
	}
}

// costOf returns the cost of a held request: its header, which is copied when it is forwarded, and
// the kernel buffers for its body.
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
