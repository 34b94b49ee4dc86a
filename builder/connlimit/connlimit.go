// Package connlimit limits the connections of a listener such that a client which opens
// many loses its own, and not those of others. The build service and the webhook of the
// operator need that before they know who calls.
package connlimit

import (
	"net"
	"slices"
	"sync"
)

// Listen returns a listener that accepts all connections of inner, and has at most so many
// of them open: when there are too many, it closes the oldest one of the address that has the
// most. A client with a single connection keeps it as long as another one has two.
func Listen(inner net.Listener, most int) net.Listener {
	return &listener{Listener: inner, most: most, byAddress: map[string][]*Conn{}}
}

type listener struct {
	net.Listener
	most int

	mu             sync.Mutex
	size, accepted int
	byAddress      map[string][]*Conn // the oldest first
}

// Accept is part of [net.Listener].
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
		_ = surplus.Conn.Close() // its client connects again
	}
	l.size++
	l.accepted++
	c.order = l.accepted
	l.byAddress[c.address] = append(l.byAddress[c.address], c)
	return c, nil
}

// surplus returns the connection to close first. The caller must hold the lock.
func (l *listener) surplus() *Conn {
	var most []*Conn
	for _, conns := range l.byAddress {
		if len(conns) > len(most) || len(conns) == len(most) && conns[0].order < most[0].order {
			most = conns
		}
	}
	return most[0]
}

// remove has a connection count no more. The caller must hold the lock.
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

// A Conn is a connection of a listener that [Listen] made.
type Conn struct {
	net.Conn
	listener *listener
	address  string
	order    int // among all that were accepted
}

// Exempt lifts the limit for the connection, which no longer counts and is not closed.
func (c *Conn) Exempt() {
	c.listener.mu.Lock()
	defer c.listener.mu.Unlock()
	c.listener.remove(c)
}

// Close closes the connection, which no longer counts.
func (c *Conn) Close() error {
	c.Exempt()
	return c.Conn.Close()
}
