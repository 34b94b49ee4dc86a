package plane

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
)

// Second is another API server of the same cluster. It connects to etcd through a Line.
type Second struct {
	*Process
	Line *Line
	URL  string

	plane *Plane
}

// Second starts another API server, and waits until it is ready.
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

// Stop stops it.
func (s *Second) Stop() {
	s.Kill()
	s.Line.listener.Close() //nolint:errcheck // the listener is closed in any case
}

// Line forwards TCP connections to an address. Connections do not break while it is held, but
// no data arrives.
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

// Hold stops forwarding data in both directions, until Release.
func (l *Line) Hold() { l.gate.Lock() }

// Release resumes forwarding, beginning with the held data.
func (l *Line) Release() { l.gate.Unlock() }

// pass copies data from one end to the other, and closes both at the end.
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
