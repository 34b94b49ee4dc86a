package buildservice

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"goless.io/builder"
	"goless.io/builder/remote"
)

// flood has 64 addresses, as many as a tenant may have pods, open connections one after
// the other and say nothing.
func flood(t *testing.T, target string, connections int) {
	t.Helper()
	for i := range connections {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+i*64/connections))}}
		connection, err := from.DialContext(t.Context(), "tcp", target)
		switch {
		case errors.Is(err, syscall.EADDRNOTAVAIL):
			t.Skipf("this machine has not the addresses of 127.0.1.0/24: %v", err)
		case err != nil:
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = connection.Close() }) // the other side may have closed it
	}
}

// TestStrangersLockNobodyOut fills the limit of the clients' port and that of the port
// for probes. The operator, pods and the kubelet do not notice.
func TestStrangersLockNobodyOut(t *testing.T) {
	r := newReplica(t, Config{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error)
	go func() { served <- r.ServeProbes(ctx, listener) }()

	flood(t, strings.TrimPrefix(r.url, "https://"), maxClients+64)
	flood(t, listener.Addr().String(), maxPlain+64)
	key, report := r.build(t, remote.Order{Namespace: "team-a", Source: source(t, "")})
	if report.Reason != builder.Built {
		t.Errorf("the report: %+v, want Built", report)
	}
	r.binary(t, key)
	for _, path := range []string{"/healthz", "/readyz"} {
		response, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s", path, response.Status)
		}
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("ServeProbes: %v", err)
	}
}

// pipe is a connection from an address that says nothing.
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

// pipes is a listener for these.
type pipes struct {
	net.Listener
	next *pipe
}

func (p *pipes) Accept() (net.Conn, error) { return p.next, nil }

func TestConnLimit(t *testing.T) {
	listener := &pipes{}
	limit := limitConns(listener, 3)
	open := func(from string) (*pipe, *limitedConn) {
		listener.next = &pipe{from: from}
		accepted, err := limit.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return listener.next, accepted.(*limitedConn)
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
	kept.uncount()
	if open("10.0.0.4"); modest.closed || late.closed {
		t.Error("who has shown a token is counted")
	}
	for range 2 {
		if err := kept.Close(); err != nil { // the second time it is
			t.Error(err)
		}
	}
	if limit.size != 3 {
		t.Errorf("%d connections are counted, want 3", limit.size)
	}
}

// TestConnectionsOfStrangersEnd asks with tokens and without. Only who has one may ask
// again on the same connection.
func TestConnectionsOfStrangersEnd(t *testing.T) {
	r := newReplica(t, Config{})
	key := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		head, token string
		goesOn      bool
	}{
		"Operator": {"POST " + remote.BuildsPath, r.keys.Token(), true},
		"Pod":      {"GET " + remote.BinariesPath + key, r.keys.Capability(key), true},
		"Stranger": {"GET " + remote.BinariesPath + key, r.keys.Capability("1"), false},
		"Nothing":  {"GET /", r.keys.Token(), false},
	} {
		t.Run(name, func(t *testing.T) {
			ask := asker(t, r, fmt.Sprintf("%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", c.head, c.token))
			goesOn := !ask()
			if goesOn {
				goesOn = !ask()
			}
			if goesOn != c.goesOn {
				t.Errorf("whether the connection goes on: %t", goesOn)
			}
		})
	}
}

// asker sends a request on one connection each time that it is called, and tells whether
// the answer, which has to be an error, ends the connection.
func asker(t *testing.T, r *replica, request string) func() (ends bool) {
	t.Helper()
	connection, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "https://"), r.keys.ClientTLS())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() }) // the other side may have closed it
	if err := connection.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(connection)
	return func() bool {
		if _, err := io.WriteString(connection, request); err != nil {
			t.Fatal(err)
		}
		return readRefusal(t, answers)
	}
}

// readRefusal reads an answer, which has to be an error, and tells whether it ends the
// connection.
func readRefusal(t *testing.T, answers *bufio.Reader) bool {
	t.Helper()
	response, err := http.ReadResponse(answers, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode < 400 {
		t.Fatalf("the answer is %s", response.Status)
	}
	return response.Close
}
