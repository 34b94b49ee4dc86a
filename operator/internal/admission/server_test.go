package admission

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// serve runs a handler until the end of the test.
func serve(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

// post sends a Function and returns the status code.
func post(t *testing.T, url, body string) int {
	t.Helper()
	answer, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	return answer.StatusCode
}

// slow sends an incomplete request.
func slow(t *testing.T, address, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Requests beyond the memory limit are rejected.
func TestBodyLimit(t *testing.T) {
	const most = maxBuffered / maxBody
	var arrived sync.WaitGroup
	arrived.Add(most)
	leave := make(chan struct{})
	var turned atomic.Int32
	server := serve(t, limitBodies(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		<-leave
	}), func() { turned.Add(1) }))
	var crowd sync.WaitGroup
	for range most {
		crowd.Go(func() {
			if got := post(t, server.URL, strings.Repeat(" ", maxBody)); got != http.StatusOK {
				t.Errorf("request within the limit: status %d", got)
			}
		})
	}
	arrived.Wait()
	if got := post(t, server.URL, "{}"); got != http.StatusServiceUnavailable || turned.Load() != 1 {
		t.Errorf("request beyond the limit: status %d, %d rejected, want 503 and 1", got, turned.Load())
	}
	close(leave)
	crowd.Wait()
}

// Slow clients do not block others and time out.
func TestSlowClients(t *testing.T) {
	server := serve(t, limitBodies(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func() {}))
	var callers []net.Conn
	for range 8 {
		callers = append(callers, slow(t, server.Listener.Addr().String(), "/"))
	}
	for range 20 {
		if got := post(t, server.URL, "{}"); got != http.StatusOK {
			t.Fatalf("with slow clients connected: status %d", got)
		}
	}
	for _, conn := range callers {
		answer, err := io.ReadAll(conn)
		if !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
			t.Errorf("a slow client received %q, %v", answer, err)
		}
	}
}

// A request with a body above the maximum size is rejected without reading it.
func TestLargeRequests(t *testing.T) {
	server := serve(t, limitBodies(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func() {}))
	for size, want := range map[int64]int{maxBody: http.StatusOK, maxBody + 1: http.StatusRequestEntityTooLarge} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, io.LimitReader(zeros{}, size))
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = size
		request.Header.Set("Expect", "100-continue") // lets the client read an early response
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if err := answer.Body.Close(); err != nil || answer.StatusCode != want {
			t.Errorf("%d bytes: got %s, %v, want %d", size, answer.Status, err, want)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// A request to another path is rejected before its body is read, and the connection is closed.
func TestUnknownPath(t *testing.T) {
	known := func(path string) bool { return path == pathPrefix+"secret" }
	server := serve(t, requirePath(known, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	for path, want := range map[string]int{
		pathPrefix + "secret": http.StatusOK, pathPrefix: http.StatusNotFound, "/functions": http.StatusNotFound,
		pathPrefix + "secret/": http.StatusNotFound, "/": http.StatusNotFound, "//functions/secret": http.StatusNotFound,
	} {
		if got := post(t, server.URL+path, "{}"); got != want {
			t.Errorf("%s: got %d, want %d", path, got, want)
		}
	}
	answer, err := io.ReadAll(slow(t, server.Listener.Addr().String(), "/functions/guess"))
	if !strings.HasPrefix(string(answer), "HTTP/1.1 404 ") || !strings.Contains(string(answer), "Connection: close") {
		t.Errorf("a slow client received %q, %v", answer, err)
	}
}
