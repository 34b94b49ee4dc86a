package connlimit_test

import (
	"net"
	"testing"

	"goless.io/builder/connlimit"
)

// pipe is a connection from an address without data.
type pipe struct {
	net.Conn
	from   string
	closed bool
}

func (p *pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.from), Port: 1} }

func (p *pipe) Close() error {
	p.closed = true
	return nil
}

// pipes is a listener that accepts pipes.
type pipes struct {
	net.Listener
	next *pipe
}

func (p *pipes) Accept() (net.Conn, error) { return p.next, nil }

func TestConnLimit(t *testing.T) {
	listener := &pipes{}
	limit := connlimit.Listen(listener, 3)
	open := func(from string) (*pipe, *connlimit.Conn) {
		listener.next = &pipe{from: from}
		accepted, err := limit.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return listener.next, accepted.(*connlimit.Conn)
	}
	first, _ := open("10.0.0.1")
	second, _ := open("10.0.0.1")
	modest, _ := open("10.0.0.2")
	late, _ := open("10.0.0.3")
	if !first.closed || second.closed || modest.closed || late.closed {
		t.Error("the oldest of the address with most connections was not the one to go")
	}
	again, kept := open("10.0.0.2")
	if !second.closed || modest.closed || late.closed || again.closed {
		t.Error("of addresses with equally many connections, the oldest was not the one to go")
	}
	kept.Exempt()
	if open("10.0.0.4"); modest.closed || late.closed {
		t.Error("a connection without limit is counted")
	}
	for range 2 {
		if err := kept.Close(); err != nil { // the second call closes a closed connection
			t.Error(err)
		}
	}
	if open("10.0.0.5"); !modest.closed || late.closed {
		t.Error("a connection without limit is counted when it is closed")
	}
}
