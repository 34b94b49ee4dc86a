package serve

import (
	"io"
	"net"
	"time"
)

// forward connects whoever comes with the process that serves at that time. The
// connection stays with it to its end, so that streams and WebSockets work, and
// so that it is up to a process to send its clients away when it has to end.
//
// Processes could share one listener instead. But one that closes its own may
// have accepted a connection that it then forgets.
func (s *Server) forward() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return // it is closed
		}
		s.running.Go(func() { s.connect(client) })
	}
}

// connect waits for a process that can be reached.
func (s *Server) connect(client net.Conn) {
	defer client.Close() //nolint:errcheck // both sides know by now
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		if p := s.current.Load(); p != nil {
			var d net.Dialer
			if server, err := d.DialContext(s.alive, "tcp", p.address); err == nil {
				s.join(client, server)
				return
			}
		}
		select {
		case <-s.alive.Done():
			return
		case <-again.C:
		}
	}
}

// join copies in both directions until both have ended, or this server has.
func (s *Server) join(client, server net.Conn) {
	defer server.Close() //nolint:errcheck // as above
	done := make(chan struct{}, 2)
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		go func() {
			_, _ = io.Copy(to, from) // what is wrong with one end the other learns by its end
			_ = to.(*net.TCPConn).CloseWrite()
			done <- struct{}{}
		}()
	}
	for range 2 {
		select {
		case <-done:
		case <-s.alive.Done():
			return
		}
	}
}
