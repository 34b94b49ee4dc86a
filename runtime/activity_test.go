package runtime_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"
)

// activity is the response of /activity.
type activity struct {
	InFlight    *int     `json:"inFlight"`
	IdleSeconds *float64 `json:"idleSeconds"`
}

func (f *function) activity() (inFlight int, idle time.Duration) {
	f.t.Helper()
	status, body := get(f.t, f.admin+"/activity")
	var a activity
	if err := json.Unmarshal([]byte(body), &a); err != nil || status != http.StatusOK || a.InFlight == nil || a.IdleSeconds == nil {
		f.t.Fatalf("/activity returned %d %q (%v)", status, body, err)
	}
	return *a.InFlight, time.Duration(*a.IdleSeconds * float64(time.Second))
}

// A function is busy while a handler runs, and idle after that. Requests to the admin port do
// not count.
func TestActivity(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	f := start(t, nil, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	})
	_, beforeAny := f.activity()
	waitFor(t, "the time without requests to grow", func() bool {
		n, idle := f.activity()
		return n == 0 && idle > beforeAny+50*time.Millisecond
	})
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		f.get("/")
	}()
	<-entered
	if n, idle := f.activity(); n != 1 || idle != 0 {
		t.Errorf("while a handler runs: %d in flight, idle for %s, want 1 and 0", n, idle)
	}
	ended := time.Now()
	close(leave)
	<-asked
	waitFor(t, "the request to end", func() bool { n, _ := f.activity(); return n == 0 })
	if _, idle := f.activity(); idle > time.Since(ended) {
		t.Errorf("idle for %s, but the request ended %s ago", idle, time.Since(ended))
	}
}

// A hijacked connection counts until its handler returns, even if the connection is left open.
func TestActivityOfHijacked(t *testing.T) {
	t.Parallel()
	hijacked, leave := make(chan struct{}), make(chan struct{})
	f := start(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		close(hijacked)
		<-leave
	})
	conn := dial(t, f.addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: f\r\n\r\n")
	<-hijacked
	if n, idle := f.activity(); n != 1 || idle != 0 {
		t.Errorf("while its handler runs: %d in flight, idle for %s, want 1 and 0", n, idle)
	}
	close(leave)
	waitFor(t, "the handler to return", func() bool { n, _ := f.activity(); return n == 0 })
}

// A handler that continues after its timeout counts until it returns.
func TestActivityOfOverdue(t *testing.T) {
	t.Parallel()
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			finish := make(chan struct{})
			f := start(t, short, func(http.ResponseWriter, *http.Request) { <-finish })
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
			if status, _ := do(t, client, req); status != http.StatusGatewayTimeout {
				t.Errorf("got %d, want 504", status)
			}
			time.Sleep(100 * time.Millisecond) // ignores its context
			ended := time.Now()
			close(finish)
			waitFor(t, "the handler to return", func() bool { n, _ := f.activity(); return n == 0 })
			if _, idle := f.activity(); idle > time.Since(ended) {
				t.Errorf("idle for %s, but the handler returned %s ago", idle, time.Since(ended))
			}
		})
	}
}
