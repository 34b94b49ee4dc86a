package runtime_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"goless.io/runtime"
)

// activity is the response of /activity.
type activity struct {
	InFlight        int     `json:"inFlight"`
	IdleSeconds     float64 `json:"idleSeconds"`
	UptimeSeconds   float64 `json:"uptimeSeconds"`
	InFlightSeconds float64 `json:"inFlightSeconds"`
	Served          int     `json:"served"`
	Failed          int     `json:"failed"`
	Rejected        int     `json:"rejected"`
}

func (f *function) allActivity() (a activity) {
	f.t.Helper()
	status, body := get(f.t, f.admin+"/activity")
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil || status != http.StatusOK {
		f.t.Fatalf("/activity returned %d %q (%v)", status, body, err)
	}
	return a
}

func (f *function) activity() (inFlight int, idle time.Duration) {
	f.t.Helper()
	a := f.allActivity()
	return a.InFlight, time.Duration(a.IdleSeconds * float64(time.Second))
}

// The totals contain served requests and those that the limit of concurrent requests rejects.
// InFlightSeconds grows while a request is in flight, at most as fast as the uptime.
func TestLoad(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	f := start(t, func(c *runtime.Config) { c.RequestConcurrency = 1 }, func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	})
	before := f.allActivity()
	if before.UptimeSeconds <= 0 || before.InFlightSeconds != 0 || before.Served+before.Rejected != 0 {
		t.Errorf("before the first request: %+v", before)
	}
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		f.get("/")
	}()
	<-entered
	for range 3 {
		f.get("/")
	}
	during := f.allActivity()
	waitFor(t, "the request to add to the load", func() bool { return f.allActivity().InFlightSeconds > during.InFlightSeconds+0.05 })
	close(leave)
	<-asked
	waitFor(t, "the request to end", func() bool { return f.allActivity().Served == 1 })
	after := f.allActivity()
	if after.Rejected != 3 || after.InFlightSeconds > after.UptimeSeconds-before.UptimeSeconds {
		t.Errorf("after the requests: %+v, before: %+v", after, before)
	}
	if again := f.allActivity(); again.InFlightSeconds != after.InFlightSeconds || again.UptimeSeconds <= after.UptimeSeconds {
		t.Errorf("without a request: %+v, want the same as %+v and a longer uptime", again, after)
	}
}

// Server errors, panics, timeouts, aborted and incomplete responses are failures. Client errors are not.
func TestFailures(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *runtime.Config) { c.RequestConcurrency, c.RequestTimeout = 1, 100*time.Millisecond }, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("no")
		case "/abort":
			panic(http.ErrAbortHandler)
		case "/short":
			w.Header().Set("Content-Length", "10")
		case "/slow":
			<-r.Context().Done()
		case "/500":
			w.WriteHeader(http.StatusInternalServerError)
		case "/404":
			w.WriteHeader(http.StatusNotFound)
		}
	})
	var failures int
	for n, c := range []struct {
		path  string
		fails bool
	}{{"/", false}, {"/404", false}, {"/500", true}, {"/panic", true}, {"/slow", true}, {"/short", true}, {"/abort", true}, {"/", false}} {
		if response, err := http.Get("http://" + f.addr + c.path); err == nil { //nolint:noctx // it ends
			_ = response.Body.Close()
		}
		if c.fails {
			failures++
		}
		waitFor(t, "the request of "+c.path+" to end", func() bool { return f.allActivity().Served == n+1 })
		if got := f.allActivity().Failed; got != failures {
			t.Errorf("after %s: %d failures, want %d", c.path, got, failures)
		}
	}
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
