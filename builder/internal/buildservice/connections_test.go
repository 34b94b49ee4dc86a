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
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"goless.io/builder"
	"goless.io/builder/buildapi"
)

// flood opens connections from 64 addresses, the number of pods that a tenant may have, and sends
// nothing.
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
		t.Cleanup(func() { _ = connection.Close() }) // may be closed already
	}
}

// probes serves the probe port until the end of the test and returns its address.
func (r *replica) probes(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- r.ServeProbes(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Errorf("ServeProbes: %v", err)
		}
	})
	return listener.Addr().String()
}

// TestStrangersLockNobodyOut exhausts the connections of the client port and of the probe port. The
// operator, pods and the kubelet are not affected.
func TestStrangersLockNobodyOut(t *testing.T) {
	r := newReplica(t, Config{})
	probes := r.probes(t)
	flood(t, r.address(), maxClients+64)
	flood(t, probes, maxPlain+64)
	key, report := r.build(t, buildapi.Order{Namespace: "team-a", Source: source(t, "")})
	if report.Reason != builder.Built {
		t.Errorf("the report: %+v, want Built", report)
	}
	r.binary(t, key)
	for _, path := range []string{"/healthz", "/readyz"} {
		response, err := http.Get("http://" + probes + path)
		if err != nil {
			t.Fatal(err)
		}
		if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
			t.Errorf("%s answers %s", path, response.Status)
		}
	}
}

// TestSlowStrangers sends endless requests slowly. The service closes the connections.
func TestSlowStrangers(t *testing.T) {
	r := newReplica(t, Config{})
	probes := r.probes(t)
	plain := func(address string) (net.Conn, error) { return net.Dial("tcp", address) }
	secure := func(address string) (net.Conn, error) { return tls.Dial("tcp", address, r.keys.ClientTLS()) }
	for name, c := range map[string]struct {
		dial          func(address string) (net.Conn, error)
		address, head string
	}{
		"Handshake": {plain, r.address(), "\x16\x03\x01\x40\x00"}, // announces 16 KiB of TLS data
		"Head":      {secure, r.address(), "GET / HTTP/1.1\r\nHost: "},
		"Order":     {secure, r.address(), "POST " + buildapi.BuildsPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"},
		"Chunks":    {secure, r.address(), "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n"},
		"ProbeHead": {plain, probes, "GET /healthz HTTP/1.1\r\nHost: "},
		"ProbeBody": {plain, probes, "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			connection, err := c.dial(c.address)
			if err != nil {
				t.Fatal(err)
			}
			var sending sync.WaitGroup
			defer sending.Wait()
			defer connection.Close() //nolint:errcheck // the other side has closed it
			sending.Go(func() {
				for _, err := io.WriteString(connection, c.head); err == nil; time.Sleep(50 * time.Millisecond) {
					_, err = connection.Write([]byte("0"))
				}
			})
			if err := connection.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, connection); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection goes on")
			}
		})
	}
}

// TestConnectionsOfStrangersEnd sends requests with and without tokens. Only connections with a
// valid token stay open for further requests.
func TestConnectionsOfStrangersEnd(t *testing.T) {
	r := newReplica(t, Config{})
	key := strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		head, token string
		goesOn      bool
	}{
		"Operator": {"POST " + buildapi.BuildsPath, r.keys.Token(), true},
		"Pod":      {"GET " + buildapi.BinariesPath + key, r.keys.Capability(key), true},
		"Stranger": {"GET " + buildapi.BinariesPath + key, r.keys.Capability("1"), false},
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

// asker returns a function that sends a request on one connection. It reports whether the response,
// which must be an error, closes the connection.
func asker(t *testing.T, r *replica, request string) func() (ends bool) {
	t.Helper()
	connection, err := tls.Dial("tcp", strings.TrimPrefix(r.url, "https://"), r.keys.ClientTLS())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() }) // may be closed already
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

// readRefusal reads a response, which must be an error, and reports whether it closes the
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
