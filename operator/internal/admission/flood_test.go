package admission

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

// counting is a listener that counts open connections.
type counting struct {
	net.Listener
	open atomic.Int32
}

func (l *counting) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err == nil {
		l.open.Add(1)
	}
	return &countedConn{Conn: accepted, of: l}, err
}

type countedConn struct {
	net.Conn
	of     *counting
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.of.open.Add(-1)
	}
	return c.Conn.Close()
}

// Clients that open connections and send nothing do not exceed the connection limit or block the
// API server.
func TestConnectionLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := &counting{Listener: inner}
	options := Options{Listener: listener}
	certs := newCertificates(nil, logr.Discard(), options)
	data, err := issueKeyPair("webhook", 2*time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parseKeyPair(data, "webhook", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certs.serve(p)
	path := pathPrefix + "secret"
	certs.path.Store(&path)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() {
		served <- newServer(options, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), certs).Start(ctx)
	}()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	const tooMany = maxConns + 256
	for i := range tooMany {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i%8))}}
		conn, err := from.DialContext(t.Context(), "tcp", inner.Addr().String())
		switch {
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			t.Skipf("this machine has not the addresses of 127.0.1.0/24: %v", err)
		case err != nil:
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // may already be closed
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(p.trusted)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted, ServerName: "webhook"}}}
	defer client.CloseIdleConnections()
	answer, err := client.Post("https://"+inner.Addr().String()+path, "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // read-only
	if _, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("with the other connections open, the API server received %s, %v", answer.Status, err)
	}
	// The connection of the API server was accepted last.
	if now := listener.open.Load(); now > maxConns {
		t.Errorf("%d connections are open, want at most %d", now, maxConns)
	}
}
