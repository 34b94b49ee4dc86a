package plane

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
)

// Second is one more API server for the same cluster. What it hears of etcd comes
// through a line of its own.
type Second struct {
	*Process
	Line *Line
	URL  string

	plane *Plane
}

// Second starts one more API server, and waits until it is ready.
func (p *Plane) Second(ctx context.Context) (*Second, error) {
	line, err := newLine(strings.TrimPrefix(p.etcd, "http://"))
	if err != nil {
		return nil, err
	}
	var port int
	if err := freePorts(&port); err != nil {
		return nil, err
	}
	s := &Second{Line: line, URL: fmt.Sprintf("https://127.0.0.1:%d", port), plane: p}
	s.Process = p.apiServer("second-apiserver", "http://"+line.listener.Addr().String(), port)
	if err := s.Start(); err != nil {
		return nil, err
	}
	return s, s.Await(ctx)
}

// Await waits until it is ready.
func (s *Second) Await(ctx context.Context) error { return s.plane.await(ctx, s.Process, s.URL) }

// Stop ends it.
func (s *Second) Stop() {
	s.Kill()
	s.Line.listener.Close() //nolint:errcheck // nobody listens any more either way
}

// Line is a TCP connection, or many, to one place. Nothing breaks on it: while it
// is held, nothing arrives.
type Line struct {
	listener net.Listener
	gate     sync.RWMutex // locked while held
}

func newLine(target string) (*Line, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	l := &Line{listener: listener}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return // it was closed
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close() //nolint:errcheck // nothing was sent
				continue
			}
			go l.pass(near, far)
			go l.pass(far, near)
		}
	}()
	return l, nil
}

// Hold lets nothing pass, in both directions, until Release.
func (l *Line) Hold() { l.gate.Lock() }

// Release lets everything pass again, what was held first.
func (l *Line) Release() { l.gate.Unlock() }

// pass takes bytes from one end to the other, and closes both at the end.
func (l *Line) pass(from, to net.Conn) {
	defer from.Close() //nolint:errcheck // the other end has failed
	defer to.Close()   //nolint:errcheck // likewise
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		l.gate.RLock()
		_, writeErr := to.Write(buffer[:n])
		l.gate.RUnlock()
		if err != nil || writeErr != nil {
			return
		}
	}
}
