package serve

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// forward connects whoever comes with the process that serves at that time. The
// connection stays with it to its end, so that streams and WebSockets work, and
// so that it is up to a process to send its clients away when it has to end.
//
// Processes could share one listener instead. But then connections were lost
// when one of them closed it, and a new version had some before it was ready.
func (s *Server) forward() {
	for {
		client, err := s.listener.Accept()
		if err != nil {
			return // it is closed
		}
		s.running.Go(func() { s.connect(client) })
	}
}

// connect waits for a process that can be reached, unless nobody is to wait.
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
		if reason := s.refusal.Load(); reason != nil {
			s.refuse(client, *reason)
			return
		}
		select {
		case <-s.alive.Done():
			return
		case <-again.C:
		}
	}
}

// refuse answers the first request of a connection, and ends that.
func (s *Server) refuse(client net.Conn, reason string) {
	defer context.AfterFunc(s.alive, func() { _ = client.Close() })()
	_ = client.SetDeadline(time.Now().Add(grace)) // for those who connect and say nothing
	request, err := http.ReadRequest(bufio.NewReader(client))
	if err != nil {
		return // it is no request
	}
	response := http.Response{
		StatusCode: http.StatusServiceUnavailable,
		ProtoMajor: 1, ProtoMinor: 1,
		Request:       request,
		Header:        http.Header{"Content-Type": {"text/plain; charset=utf-8"}},
		Body:          io.NopCloser(strings.NewReader(reason + "\n")),
		ContentLength: int64(len(reason) + 1),
		Close:         true,
	}
	_ = response.Write(client) // there is nobody else to be told
	_ = client.(*net.TCPConn).CloseWrite()
	_, _ = io.Copy(io.Discard, client) // or else what is not read resets the connection, with the answer
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
