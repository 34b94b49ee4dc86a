package streams

import (
	"io"
	"net"
	"sync"
	"testing"
)

// link is the network between a process and a server.
type link struct {
	address, to string

	mu         sync.Mutex
	swallowing bool
	open       []net.Conn
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{address: listener.Addr().String(), to: to}
	t.Cleanup(func() { _ = listener.Close(); l.cut() })
	go func() {
		for {
			process, err := listener.Accept()
			if err != nil {
				return
			}
			l.connect(process)
		}
	}()
	return l
}

func (l *link) connect(process net.Conn) {
	server, err := net.Dial("tcp", l.to)
	if err != nil {
		_ = process.Close()
		return
	}
	l.mu.Lock()
	l.open = append(l.open, process, server)
	l.mu.Unlock()
	go copyAll(server, process)
	go copyAll(writer(func(b []byte) (int, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.swallowing {
			return len(b), nil
		}
		return process.Write(b)
	}), server)
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func copyAll(to io.Writer, from net.Conn) {
	_, _ = io.Copy(to, from) // it ends with the connections
}

// swallow drops what the server sends from now on.
func (l *link) swallow() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.swallowing = true
}

// cut closes all connections. Data from other clients still arrives.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		_ = c.Close()
	}
	l.open, l.swallowing = nil, false
}
