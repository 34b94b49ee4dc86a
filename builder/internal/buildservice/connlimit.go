package buildservice

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// The limits of connections, each of which takes some 60 KiB of memory. The operator and
// other replicas have no limit.
const (
	// maxClients limits connections of pods, and of clients that have not shown a token yet.
	maxClients = 4096

	// maxPlain limits connections to the port for metrics, and to the one for probes.
	maxPlain = 256
)

// A connLimit is a listener that limits the number of connections. It accepts all: when
// there are too many, it closes the oldest one of the address that has the most. Thus a
// client that opens many loses its own, and a client with a single connection keeps it as
// long as another one has two.
type connLimit struct {
	net.Listener
	most int

	mu             sync.Mutex
	size, accepted int
	byAddress      map[string][]*limitedConn // the oldest first
}

func limitConns(listener net.Listener, most int) *connLimit {
	return &connLimit{Listener: listener, most: most, byAddress: map[string][]*limitedConn{}}
}

// Accept returns the next connection.
func (l *connLimit) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &limitedConn{Conn: accepted, limit: l, address: accepted.RemoteAddr().String()}
	if host, _, err := net.SplitHostPort(c.address); err == nil {
		c.address = host
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == l.most {
		surplus := l.surplus()
		l.remove(surplus)
		_ = surplus.Conn.Close() // its client connects again
	}
	l.size++
	l.accepted++
	c.order = l.accepted
	l.byAddress[c.address] = append(l.byAddress[c.address], c)
	return c, nil
}

// surplus returns the connection to close first. The caller must hold the lock.
func (l *connLimit) surplus() *limitedConn {
	var most []*limitedConn
	for _, conns := range l.byAddress {
		if len(conns) > len(most) || len(conns) == len(most) && conns[0].order < most[0].order {
			most = conns
		}
	}
	return most[0]
}

// remove has a connection count no more. The caller must hold the lock.
func (l *connLimit) remove(c *limitedConn) {
	conns := l.byAddress[c.address]
	i := slices.Index(conns, c)
	if i < 0 {
		return
	}
	l.size--
	if l.byAddress[c.address] = slices.Delete(conns, i, i+1); len(conns) == 1 {
		delete(l.byAddress, c.address)
	}
}

// A limitedConn is a connection that a connLimit has accepted.
type limitedConn struct {
	net.Conn
	limit   *connLimit
	address string
	order   int // among all that were accepted
}

// uncount lifts the limit for the connection.
func (c *limitedConn) uncount() {
	c.limit.mu.Lock()
	defer c.limit.mu.Unlock()
	c.limit.remove(c)
}

// Close closes the connection, which no longer counts.
func (c *limitedConn) Close() error {
	c.uncount()
	return c.Conn.Close()
}

// connKey is the key for the connection in the context of a request.
type connKey struct{}

// withConn puts a connection into its context, for http.Server.ConnContext.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		return context.WithValue(ctx, connKey{}, secure.NetConn())
	}
	return ctx
}

// admit keeps the connection of a request with a valid token open. That of the operator, or
// of another replica, has no limit from now on.
func admit(w http.ResponseWriter, r *http.Request, isPod bool) {
	w.Header().Del("Connection")
	if c, ok := r.Context().Value(connKey{}).(*limitedConn); ok && !isPod {
		c.uncount()
	}
}
