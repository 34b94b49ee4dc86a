package runtime_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"goless.io/runtime"
)

// hijacked serves "hello", and hijacks the connection and calls talk at /hijack. It returns a
// connection on which both were requested.
func hijacked(t *testing.T, change func(*runtime.Config), talk func(net.Conn, *bufio.ReadWriter)) {
	t.Helper()
	done := make(chan struct{})
	f := start(t, change, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/hijack" {
			answer(w, r)
			return
		}
		defer close(done)
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer shut(conn)
		talk(conn, rw)
	})
	conn := dial(t, f.addr)
	r := bufio.NewReader(conn)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: f\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	_, _ = io.Copy(io.Discard, resp.Body)
	_, _ = io.WriteString(conn, "GET /hijack HTTP/1.1\r\nHost: f\r\n\r\n")
	<-done
}

// Deadlines of an earlier request on the connection do not apply after it is hijacked.
func TestHijackedHasNoDeadline(t *testing.T) {
	t.Parallel()
	hijacked(t, func(c *runtime.Config) { c.StallTimeout = 300 * time.Millisecond }, func(_ net.Conn, rw *bufio.ReadWriter) {
		time.Sleep(600 * time.Millisecond)
		_, _ = rw.WriteString("x")
		if err := rw.Flush(); err != nil {
			t.Errorf("a write on the hijacked connection fails with %v", err)
		}
	})
}

// A deadline that the handler sets on a hijacked connection applies to its reader as well.
func TestHijackedReadDeadline(t *testing.T) {
	t.Parallel()
	hijacked(t, nil, func(conn net.Conn, rw *bufio.ReadWriter) {
		for range 2 {
			if err := conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
				t.Error(err)
			}
			if _, err := rw.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the read ends with %v, want that the deadline is exceeded", err)
			}
		}
	})
}

// Hijacking at the moment of the timeout either succeeds completely or fails.
func TestHijackAtTheDeadline(t *testing.T) {
	t.Parallel()
	const limit = 20 * time.Millisecond
	f := start(t, func(c *runtime.Config) { c.RequestTimeout = limit }, func(w http.ResponseWriter, r *http.Request) {
		deadline, _ := r.Context().Deadline()
		for until := deadline.Add(time.Duration(len(r.URL.Path)-30) * time.Microsecond); time.Now().Before(until); {
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return // the request timed out
		}
		defer shut(conn)
		time.Sleep(2 * time.Millisecond)
		_, _ = rw.WriteString("HTTP/1.1 299 Mine\r\nContent-Length: 0\r\n\r\n")
		if err := rw.Flush(); err != nil {
			t.Errorf("a write on the hijacked connection fails with %v", err)
		}
	})
	const tries = 120
	mine := 0
	for i := range tries {
		conn := dial(t, f.addr)
		_, _ = fmt.Fprintf(conn, "GET /%s HTTP/1.1\r\nHost: f\r\n\r\n", strings.Repeat("x", i%60))
		line, err := bufio.NewReader(conn).ReadString('\n')
		switch {
		case line == "HTTP/1.1 299 Mine\r\n":
			mine++
		case line != "HTTP/1.1 504 Gateway Timeout\r\n":
			t.Errorf("the client got %q, %v", line, err)
		}
		shut(conn)
	}
	for _, line := range f.requests(tries) {
		if (line["http.response.status_code"] == 101.0) == (line["error.type"] == "timeout") {
			t.Errorf("unexpected log line %v", line)
		}
		if line["http.response.status_code"] == 101.0 {
			mine--
		}
	}
	if mine != 0 {
		t.Errorf("%d more connections were hijacked than logged as hijacked", mine)
	}
}

// During the drain, the response to a handshake that is written with the response writer is
// unchanged.
func TestUpgradeWhileDraining(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *runtime.Config) { c.DrainDelay = 3 * time.Second }, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "echo")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		shut(conn)
	})
	f.stop()
	f.drains()
	conn := dial(t, f.addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: f\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	if got := resp.Header.Get("Connection"); got != "Upgrade" {
		t.Errorf("the handshake has Connection: %s", got)
	}
}
