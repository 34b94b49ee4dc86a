// Package connlimit limits the number of open connections of a listener. At the limit, it closes a
// connection of the client that has the most, so that a client that opens many connections does not
// block other clients. The build service, the webhook server of the operator and the admin port of
// the activator use it, because they accept connections of clients that are not authenticated.
package connlimit

import (
	"net"
	"slices"
	"sync"
)

// Listen returns a listener that accepts all connections of inner and limits the number of open
// connections to limit. When the limit is exceeded, the listener closes the oldest connection of
// the address that has the most connections. It does not close a client's only connection as long
// as another client has more than one.
func Listen(inner net.Listener, limit int) net.Listener {
	return &listener{Listener: inner, most: limit, byAddress: map[string][]*Conn{}}
}

type listener struct {
	net.Listener
	most int

	mu             sync.Mutex
	size, accepted int
	byAddress      map[string][]*Conn // oldest first
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: accepted, listener: l, address: accepted.RemoteAddr().String()}
	if host, _, err := net.SplitHostPort(c.address); err == nil {
		c.address = host
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.size == l.most {
		surplus := l.surplus()
		l.remove(surplus)
		_ = surplus.Conn.Close() // the client can connect again
	}
	l.size++
	l.accepted++
	c.order = l.accepted
	l.byAddress[c.address] = append(l.byAddress[c.address], c)
	return c, nil
}

// surplus returns the next connection to close. The caller must hold the lock.
func (l *listener) surplus() *Conn {
	var most []*Conn
	for _, conns := range l.byAddress {
		if len(conns) > len(most) || len(conns) == len(most) && conns[0].order < most[0].order {
			most = conns
		}
	}
	return most[0]
}

// remove stops counting a connection. The caller must hold the lock.
func (l *listener) remove(c *Conn) {
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

// Conn is a connection of a listener that [Listen] returned.
type Conn struct {
	net.Conn
	listener *listener
	address  string
	order    int // in which it was accepted
}

// Exempt excludes the connection from the limit: it is not counted or closed.
func (c *Conn) Exempt() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.remove(c)
}

// Close closes the connection and stops counting it.
func (c *Conn) Close() error {
	c.Exempt()
	return c.Conn.Close()
}
