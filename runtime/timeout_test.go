package runtime_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/runtime"
)

// short sets a timeout that is short, but long enough for a handler to begin on a busy machine.
func short(c *runtime.Config) { c.RequestTimeout = 500 * time.Millisecond }

func protocols(t *testing.T) map[string]*http.Client {
	return map[string]*http.Client{"HTTP1": {Transport: new(http.Transport)}, "H2C": h2c(t)}
}

// timeoutTest is a handler that exceeds the timeout, and the expected result.
type timeoutTest struct {
	handler http.HandlerFunc
	// status is the status that the client receives, 0 if the connection is aborted.
	status int
	// logged is the status in the log.
	logged float64
}

func TestTimeout(t *testing.T) {
	over := make(chan struct{}) // the end of the test
	t.Cleanup(func() { close(over) })
	tests := map[string]timeoutTest{
		"Ignores": {
			handler: func(http.ResponseWriter, *http.Request) { <-over },
			status:  504, logged: 504,
		},
		"Obeys": {
			handler: func(w http.ResponseWriter, r *http.Request) {
				<-r.Context().Done()
				http.Error(w, "mine", http.StatusTeapot) // too late
			},
			status: 504, logged: 504,
		},
		"OnlySetsHeaders": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				for i := 0; !isClosed(over); i++ {
					w.Header().Set(fmt.Sprint("X-", i%100), "busy")
				}
			},
			status: 504, logged: 504,
		},
		"ReadsTheBody": {
			handler: func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body); <-over },
			status:  504, logged: 504,
		},
		"Begun": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "half an ans")
				w.(http.Flusher).Flush()
				<-over
			},
			logged: 200,
		},
		"Streams": {
			handler: func(w http.ResponseWriter, _ *http.Request) {
				for {
					if _, err := io.WriteString(w, strings.Repeat("x", 5000)); err != nil {
						if !errors.Is(err, http.ErrHandlerTimeout) {
							t.Errorf("the write fails with %v", err)
						}
						return
					}
				}
			},
			logged: 200,
		},
		"CopiesFromSilence": {
			handler: copySilence,
			status:  504, logged: 504,
		},
		"PanicsAfterwards": {
			handler: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done(); panic("boom") },
			status:  504, logged: 504,
		},
	}
	for name, test := range tests {
		for protocol, client := range protocols(t) {
			t.Run(name+protocol, func(t *testing.T) {
				t.Parallel()
				test.check(t, client)
			})
		}
	}
}

// copySilence copies from a silent source until the timeout.
func copySilence(w http.ResponseWriter, r *http.Request) {
	silent, feed, err := os.Pipe()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer shut(feed)
	defer context.AfterFunc(r.Context(), func() { shut(silent) })()
	_, _ = io.CopyN(w, silent, 10)
}

func (test timeoutTest) check(t *testing.T, client *http.Client) {
	f := start(t, func(c *runtime.Config) { short(c); c.DrainTimeout = time.Millisecond }, test.handler)
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr, strings.NewReader("body"))
	req.Header.Set("X-Request-Id", "order-66")
	resp, err := client.Do(req)
	status := 0
	if err == nil {
		defer shut(resp.Body)
		var body []byte
		if body, err = io.ReadAll(resp.Body); err == nil {
			status = resp.StatusCode
			if id := resp.Header.Get("X-Request-Id"); id != "order-66" || string(body) != "the function took too long to answer\n" {
				t.Errorf("got the response %q with the request ID %q", body, id)
			}
		}
	}
	if status != test.status {
		t.Errorf("the client got status %d, %v, want %d", status, err, test.status)
	}
	line := f.requests(1)[0]
	if line["level"] != "error" || line["http.response.status_code"] != test.logged || line["error.type"] != "timeout" || (line["aborted"] == true) != (test.status == 0) {
		t.Errorf("the log line is %v, want status %v", line, test.logged)
	}
	if diff := cmp.Diff([]string{"goless_request_timeouts_total 1"}, f.metric("goless_request_timeouts_total")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A handler that ignores its context is counted as overdue until it returns, and keeps its
// place in the concurrency limit.
func TestOverdueHandlersAreCounted(t *testing.T) {
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			goOn := make(chan struct{})
			change := func(c *runtime.Config) { short(c); c.RequestConcurrency = 1 }
			f := start(t, change, func(http.ResponseWriter, *http.Request) { <-goOn })
			overdue := func() []string { return f.metric("goless_requests_overdue ") }
			if n := overdue(); !slices.Equal(n, []string{"goless_requests_overdue 0"}) {
				t.Errorf("before the first request: %q", n)
			}
			for _, want := range []int{http.StatusGatewayTimeout, http.StatusServiceUnavailable} {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
				if status, _ := do(t, client, req); status != want {
					t.Errorf("got status %d, want %d", status, want)
				}
				if n := overdue(); !slices.Equal(n, []string{"goless_requests_overdue 1"}) {
					t.Errorf("while the handler still runs: %q", n)
				}
			}
			close(goOn)
			waitFor(t, "the handler to be counted no more", func() bool { return slices.Equal(overdue(), []string{"goless_requests_overdue 0"}) })
		})
	}
}

// Data in the server's buffer is not a response. A client whose connection is closed without a
// response would consider the connection dead and retry.
func TestTimeoutOfABufferedAnswer(t *testing.T) {
	t.Parallel()
	f := start(t, short, func(w http.ResponseWriter, r *http.Request) {
		answer(w, r)
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
	})
	client := &http.Client{Transport: new(http.Transport)}
	defer client.CloseIdleConnections()
	for path, want := range map[string]int{"/": http.StatusOK, "/hang": http.StatusGatewayTimeout} {
		for range 2 { // the second on the same connection, if it is still open
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr+path, nil)
			if status, body := do(t, client, req); status != want {
				t.Errorf("%s: got %d %q, want %d", path, status, body, want)
			}
		}
	}
	f.requests(4) // and not twice
	if n := f.metric("total_invocations"); !slices.Equal(n, []string{"total_invocations 4"}) {
		t.Errorf("the requests are counted as %q", n)
	}
}

func TestTimeoutContext(t *testing.T) {
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			seen := make(chan string, 1)
			f := start(t, short, func(w http.ResponseWriter, r *http.Request) {
				ctx, cancel := context.WithCancel(r.Context())
				defer cancel()
				deadline, ok := ctx.Deadline()
				left := time.Until(deadline)
				<-ctx.Done()
				_, err := io.WriteString(w, "too late")
				seen <- fmt.Sprintln(ok && left > -time.Second && left <= 500*time.Millisecond,
					ctx.Err() == context.DeadlineExceeded, r.Context().Err() == context.DeadlineExceeded,
					errors.Is(context.Cause(ctx), context.DeadlineExceeded), err) +
					context.Cause(r.Context()).Error()
			})
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
			if status, _ := do(t, client, req); status != http.StatusGatewayTimeout {
				t.Errorf("got status %d, want 504", status)
			}
			want := "true true true true http: Handler timeout\n" +
				"the request took longer than 500ms, the function's limit: context deadline exceeded"
			if diff := cmp.Diff(want, <-seen); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A client that disconnects cancels the context, as without a deadline.
func TestContextEndsWithTheClient(t *testing.T) {
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			begun, seen := make(chan struct{}), make(chan error, 1)
			f := start(t, nil, func(_ http.ResponseWriter, r *http.Request) {
				close(begun)
				<-r.Context().Done()
				seen <- r.Context().Err()
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-begun; cancel() }()
			req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+f.addr, nil)
			if _, _, err := fetch(client, req); err == nil {
				t.Error("the request was not cancelled")
			}
			if err := <-seen; !errors.Is(err, context.Canceled) {
				t.Errorf("the context ended with %v, want canceled", err)
			}
		})
	}
}

// On a connection with consecutive requests, the timer of an earlier request must not affect a
// later one.
func TestTimeoutIsOfOneRequest(t *testing.T) {
	t.Parallel()
	const limit = 3 * time.Second
	f := start(t, func(c *runtime.Config) { c.RequestTimeout = limit }, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(800 * time.Millisecond)
		if r.Context().Err() == nil {
			answer(w, r)
		}
	})
	client := &http.Client{Transport: new(http.Transport)} // one connection, whatever other tests do
	defer client.CloseIdleConnections()
	for served := 0; served < 5; {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
		began := time.Now()
		status, body := do(t, client, req)
		if status == http.StatusGatewayTimeout && time.Since(began) >= limit {
			served = 0 // the machine stalled, and the connection is closed
			continue
		}
		if status != http.StatusOK || body != "hello" {
			t.Errorf("got %d %q", status, body)
		}
		served++
	}
}

// One timer is enough for all requests: each one that hangs times out, whichever of the others have
// ended before, and also after a time without requests.
func TestTimeoutOfEach(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	f := start(t, func(c *runtime.Config) { short(c); c.DrainTimeout = time.Millisecond }, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			<-over
		}
		answer(w, r)
	})
	request := func(path string, want int) {
		client := &http.Client{Transport: new(http.Transport)}
		defer client.CloseIdleConnections()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr+path, nil)
		began := time.Now()
		status, _ := do(t, client, req)
		took := time.Since(began)
		if status == http.StatusGatewayTimeout && took >= 500*time.Millisecond {
			return // for a request that does not hang, the machine has stalled
		}
		if status != want || status == http.StatusGatewayTimeout {
			t.Errorf("%s: got %d after %s, want %d", path, status, took, want)
		}
	}
	for range 2 {
		var all sync.WaitGroup
		for i := range 40 {
			if i%4 > 0 {
				all.Go(func() { request("/hang", http.StatusGatewayTimeout) })
			} else {
				all.Go(func() { request("/", http.StatusOK) })
			}
			time.Sleep(5 * time.Millisecond)
		}
		all.Wait()
		time.Sleep(600 * time.Millisecond) // until the timer has ended too
	}
}

// A hijacked connection has no time limit.
func TestTimeoutSparesHijacked(t *testing.T) {
	t.Parallel()
	f := start(t, short, func(w http.ResponseWriter, r *http.Request) {
		done := r.Context().Done() // requested before
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer shut(conn)
		line, _ := rw.ReadString('\n')
		_, limited := r.Context().Deadline()
		_, _ = fmt.Fprintln(conn, strings.TrimSpace(line), limited, isClosed(done))
	})
	conn := dial(t, f.addr)
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: f\r\n\r\n")
	time.Sleep(1200 * time.Millisecond) // twice the timeout
	_, _ = io.WriteString(conn, "ping\n")
	if line, err := bufio.NewReader(conn).ReadString('\n'); line != "ping false false\n" {
		t.Errorf("got %q, %v", line, err)
	}
}

// A handler that continues after its timeout counts as running: for the limit, for the gauge
// and for the drain.
func TestTimedOutHandlerStillCounts(t *testing.T) {
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			finish := make(chan struct{})
			f := start(t, func(c *runtime.Config) { short(c); c.RequestConcurrency = 1 }, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/hang" {
					<-finish
				}
				answer(w, r)
			})
			request := func(path string) int {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr+path, nil)
				status, _ := do(t, client, req)
				return status
			}
			if status := request("/hang"); status != http.StatusGatewayTimeout {
				t.Errorf("got %d, want 504", status)
			}
			if status := request("/"); status != http.StatusServiceUnavailable {
				t.Errorf("got %d while a handler still runs, want 503", status)
			}
			waitFor(t, "the gauge to show the handler", func() bool {
				return slices.Equal(f.metric("http_server_active_requests"), []string{"http_server_active_requests 1"})
			})
			close(finish)
			waitFor(t, "the replica to be free again", func() bool { return request("/") == http.StatusOK })
		})
	}
}

// A request that another function has rejected was not rejected by this one.
func TestRejectedElsewhere(t *testing.T) {
	f := start(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Goless-Rejected", "concurrency")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	resp, err := http.Get("http://" + f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	if got := resp.Header.Values("Goless-Rejected"); resp.StatusCode != http.StatusServiceUnavailable || got != nil {
		t.Errorf("a handler that passes on %d has the header Goless-Rejected %q, want 503 and none", resp.StatusCode, got)
	}
}

func TestConcurrencyLimit(t *testing.T) {
	const limit = 3
	finish := make(chan struct{})
	var running, clients sync.WaitGroup
	running.Add(limit)
	f := start(t, func(c *runtime.Config) { c.RequestConcurrency = limit }, func(w http.ResponseWriter, r *http.Request) {
		running.Done()
		<-finish
		answer(w, r)
	})
	for range limit {
		clients.Go(func() { f.get("/") })
	}
	running.Wait()
	resp, err := http.Get("http://" + f.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" || resp.Header.Get("Goless-Rejected") != "concurrency" {
		t.Errorf("a request beyond the limit got %d with %v, want 503, Retry-After 1, and the header Goless-Rejected", resp.StatusCode, resp.Header)
	}
	close(finish)
	clients.Wait()
	running.Add(1)
	if status, _ := f.get("/"); status != http.StatusOK {
		t.Errorf("got %d when the other requests have ended, want 200", status)
	}
	if diff := cmp.Diff([]string{"goless_requests_rejected_total 1"}, f.metric("goless_requests_rejected_total")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, line := range f.requests(limit + 2) {
		if line["http.response.status_code"] == 503.0 && (line["level"] != "warn" || line["error.type"] != "rejected") {
			t.Errorf("the log line of the rejection is %v", line)
		}
	}
}
