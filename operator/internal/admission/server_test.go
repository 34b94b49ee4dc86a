package admission

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		rejected := 0
		handler := limitBodies(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }), func() { rejected++ })
		send := func(size, want int) {
			t.Helper()
			w := recorder{httptest.NewRecorder()}
			handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(strings.Repeat(" ", size))))
			if w.Code != want {
				t.Errorf("a request of %d bytes: got %d, want %d", size, w.Code, want)
			}
		}
		var within sync.WaitGroup
		for range maxBuffered / maxBody {
			within.Go(func() { send(maxBody, http.StatusOK) })
		}
		synctest.Wait() // all requests are in the handler
		send(2, http.StatusServiceUnavailable)
		if rejected != 1 {
			t.Errorf("%d rejected requests were counted, want 1", rejected)
		}
		close(leave)
		within.Wait()
		send(2, http.StatusOK)
	})
}

// A recorder ignores the deadline of the body, which has arrived.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetReadDeadline(time.Time) error { return nil }

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
