package runtime_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"goless.io/runtime"
)

// slowClients are ways to block a server: the data that is sent on a connection before it
// becomes silent.
var slowClients = map[string]string{
	"nothing":       "",
	"half a header": "GET / HTTP/1.1\r\nHost: f\r\nX-",
	"half a body":   "POST /read HTTP/1.1\r\nHost: f\r\nContent-Length: 1000000\r\n\r\nhalf",
	"unread body":   "POST / HTTP/1.1\r\nHost: f\r\nContent-Length: 100000\r\n\r\nhalf",
	"half preface":  "PRI * HTTP/2.0\r\n",
	"only preface":  "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	"keep alive":    "GET / HTTP/1.1\r\nHost: f\r\n\r\n",
}

// noReading requests an endless response that the client does not read. Each such connection fills
// the buffers of the kernel.
const noReading = "GET /endless HTTP/1.1\r\nHost: f\r\n\r\n"

// impatient configures short timeouts for slow clients.
func impatient(c *runtime.Config) {
	c.ReadHeaderTimeout, c.IdleTimeout, c.StallTimeout = time.Second, time.Second, time.Second
	c.RequestTimeout = 0 // the limits of this test do not concern the request
}

func slowHandler(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/read":
		_, _ = io.Copy(io.Discard, r.Body)
	case "/endless":
		for {
			if _, err := w.Write(make([]byte, 8<<10)); err != nil {
				return
			}
		}
	default:
		answer(w, r)
	}
}

// 2000 slow clients cost little, are disconnected, and do not affect other clients.
func TestSlowClients(t *testing.T) {
	const connections = 2000
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Cur < 2*connections+100 {
		t.Skipf("the process may open %d files, too few for %d connections (%v)", files.Cur, connections, err)
	}
	f := start(t, impatient, slowHandler)
	before := memory()
	var ways []string
	for _, way := range slowClients {
		ways = append(ways, way)
	}
	conns := make([]net.Conn, connections)
	for i := range conns {
		conns[i] = dial(t, f.addr)
		way := ways[i%len(ways)]
		if i%40 == 0 {
			way = noReading
		}
		_, _ = io.WriteString(conns[i], way)
	}
	latencies := f.latencies(200)
	if median := latencies[len(latencies)/2]; median > 100*time.Millisecond {
		t.Errorf("with slow clients a request takes %s", median)
	}
	grown := memory() - before
	if grown > 128<<20 {
		t.Errorf("%d slow connections cost %d MiB", connections, grown>>20)
	}
	t.Logf("median %s, p99 %s, memory +%d MiB (clients included)",
		latencies[len(latencies)/2], latencies[len(latencies)*99/100], grown>>20)

	waitFor(t, "the handlers to be freed", func() bool {
		return slices.Equal(f.metric("http_server_active_requests"), []string{"http_server_active_requests 0"})
	})
	var open atomic.Int64
	var clients sync.WaitGroup
	for _, conn := range conns {
		clients.Go(func() {
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				open.Add(1)
			}
		})
	}
	clients.Wait()
	if n := open.Load(); n > 0 {
		t.Errorf("%d slow connections are still open", n)
	}
}

// latencies returns the sorted durations of n requests.
func (f *function) latencies(n int) []time.Duration {
	f.t.Helper()
	all := make([]time.Duration, n)
	for i := range all {
		began := time.Now()
		if status, _ := f.get("/"); status != http.StatusOK {
			f.t.Fatalf("got status %d", status)
		}
		all[i] = time.Since(began)
	}
	slices.Sort(all)
	return all
}

// memory returns the bytes of heap and stacks in use.
func memory() int64 {
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// A body that is sent slowly is read completely, and a response that is received slowly is
// written completely.
func TestSlowButSteady(t *testing.T) {
	t.Parallel()
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			for !slowButSteady(t, client) {
				t.Log("the machine stalled, trying again")
			}
		})
	}
}

// slowButSteady sends a request and receives its response, each in pieces. It returns false if that
// failed and there was a long pause between two pieces.
func slowButSteady(t *testing.T, client *http.Client) bool {
	t.Helper()
	const timeout = 3 * time.Second
	var stalled atomic.Bool
	pause := func() {
		began := time.Now()
		time.Sleep(time.Second)
		if time.Since(began) > timeout*2/3 {
			stalled.Store(true)
		}
	}
	f := start(t, func(c *runtime.Config) { c.StallTimeout = timeout }, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintln(w, n, err)
		for range 4 {
			w.(http.Flusher).Flush()
			pause()
			_, _ = io.WriteString(w, "more\n")
		}
	})
	body, feed := io.Pipe()
	go func() {
		for range 4 {
			pause()
			_, _ = io.WriteString(feed, "piece")
		}
		shut(feed)
	}()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr, body)
	_, got, err := fetch(client, req)
	ok := err == nil && got == "20 <nil>\n"+strings.Repeat("more\n", 4)
	if !ok && !stalled.Load() {
		t.Errorf("got %q, %v", got, err)
	}
	return ok || !stalled.Load()
}

// A handler that neither reads nor writes for a long time is not interrupted.
func TestQuietHandler(t *testing.T) {
	t.Parallel()
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(c *runtime.Config) { c.StallTimeout = time.Second }, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				time.Sleep(2 * time.Second)
				_, _ = fmt.Fprint(w, r.Context().Err())
			})
			for range 2 { // the second on the same connection
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr, strings.NewReader("body"))
				if status, body := do(t, client, req); status != http.StatusOK || body != "<nil>" {
					t.Errorf("got %d %q", status, body)
				}
			}
		})
	}
}

// Deadlines that a handler sets replace the stall timeout.
func TestOwnDeadlines(t *testing.T) {
	t.Parallel()
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(c *runtime.Config) { c.StallTimeout = time.Second }, func(w http.ResponseWriter, r *http.Request) {
				if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Error(err)
				}
				_, err := io.Copy(io.Discard, r.Body)
				_, _ = fmt.Fprint(w, err)
			})
			body, feed := io.Pipe()
			time.AfterFunc(2*time.Second, func() { shut(feed) })
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr, body)
			if _, got := do(t, client, req); got != "<nil>" {
				t.Errorf("the read ended with %q", got)
			}
		})
	}
}

// A handler that clears the deadline has none, however long its client does not read.
func TestNoDeadline(t *testing.T) {
	t.Parallel()
	const size, stall = 64 << 20, 500 * time.Millisecond
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(c *runtime.Config) { c.StallTimeout = stall }, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "x")
				if err := http.NewResponseController(w).SetWriteDeadline(time.Time{}); err != nil {
					t.Error(err)
				}
				_, _ = w.Write(make([]byte, size))
			})
			resp, err := client.Get("http://" + f.addr)
			if err != nil {
				t.Fatal(err)
			}
			defer shut(resp.Body)
			time.Sleep(3 * stall)
			if n, err := io.Copy(io.Discard, resp.Body); n != size+1 || err != nil {
				t.Errorf("got %d bytes, %v, want %d", n, err, size+1)
			}
		})
	}
}

// A stream without data has not stalled if the handler writes nothing, or is busy with the data
// that it has read.
func TestSilenceIsNoStall(t *testing.T) {
	t.Parallel()
	const size = 4 << 20 // more than the buffers hold
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(c *runtime.Config) { c.StallTimeout, c.RequestTimeout = time.Second, 0 }, func(w http.ResponseWriter, r *http.Request) {
				begun, err := io.ReadFull(r.Body, make([]byte, 10))
				if err != nil {
					t.Error(err)
				}
				time.Sleep(2 * time.Second)
				rest, err := io.Copy(io.Discard, r.Body)
				_, _ = fmt.Fprintln(w, int64(begun)+rest, err)
				w.(http.Flusher).Flush()
				time.Sleep(2 * time.Second)
				_, _ = io.WriteString(w, "last words")
			})
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr, io.LimitReader(zeros{}, size))
			if _, got := do(t, client, req); got != fmt.Sprintln(size, nil)+"last words" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Without a stall timeout, a stream may be silent indefinitely in both directions.
func TestQuietStream(t *testing.T) {
	t.Parallel()
	const quiet = 2 * time.Second
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(c *runtime.Config) {
				c.StallTimeout, c.RequestTimeout, c.ReadHeaderTimeout, c.IdleTimeout = 0, 0, quiet/4, quiet/4
			}, echoLines)
			body, feed := io.Pipe()
			defer shut(feed)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr, body)
			go func() { _, _ = io.WriteString(feed, "first\n") }()
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer shut(resp.Body)
			answers := bufio.NewReader(resp.Body)
			for _, next := range []string{"second\n", "third\n"} {
				if _, err := answers.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				time.Sleep(quiet)
				_, _ = io.WriteString(feed, next)
			}
			if line, err := answers.ReadString('\n'); line != "third\n" {
				t.Errorf("got %q, %v", line, err)
			}
		})
	}
}

// A slow source does not count as a stalled client, however it is copied.
func TestSlowSource(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *runtime.Config) { c.StallTimeout = time.Second }, func(w http.ResponseWriter, _ *http.Request) {
		r, feed, err := os.Pipe()
		if err != nil {
			t.Error(err)
			return
		}
		defer shut(r)
		go func() {
			defer shut(feed)
			for range 10 {
				_, _ = feed.Write(make([]byte, 1000))
				time.Sleep(200 * time.Millisecond)
			}
		}()
		w.Header().Set("Content-Length", "10000") // otherwise chunked, which the kernel cannot do
		if n, err := io.CopyN(w, r, 10_000); err != nil {
			t.Errorf("%d bytes are copied, then %v", n, err)
		}
	})
	if _, body := f.get("/"); len(body) != 10_000 {
		t.Errorf("got %d bytes, want 10000", len(body))
	}
}

// A handler that does not read the request's body is not blocked by a client that does not send
// it, although the server tries to read it before it responds.
func TestBodyThatNeverComes(t *testing.T) {
	tests := map[string]func(*runtime.Config){
		"Stall":   func(c *runtime.Config) { c.StallTimeout = 500 * time.Millisecond },
		"Timeout": func(c *runtime.Config) { c.RequestTimeout = 500 * time.Millisecond },
		"NoLimit": func(c *runtime.Config) {
			c.RequestTimeout, c.StallTimeout, c.ReadHeaderTimeout = 0, 0, 500*time.Millisecond
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			returned := make(chan struct{})
			f := start(t, change, func(w http.ResponseWriter, _ *http.Request) {
				defer close(returned)
				_, _ = w.Write(make([]byte, 10_000))
			})
			conn := dial(t, f.addr)
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: f\r\nContent-Length: 10\r\n\r\n")
			select {
			case <-returned:
			case <-time.After(2 * time.Minute):
				t.Error("the handler still writes after 2m")
			}
			got, _ := io.ReadAll(conn)
			if name != "Timeout" && !strings.HasPrefix(string(got), "HTTP/1.1 200 OK") {
				t.Errorf("the client got %q", got)
			}
		})
	}
}

// A handler that closes a body that its client does not send returns, and so frees its place in
// the concurrency limit.
func TestClosedBodyThatNeverComes(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 1)
	f := start(t, func(c *runtime.Config) {
		c.RequestTimeout, c.StallTimeout, c.RequestConcurrency = 0, 0, 1
	}, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			defer func() { closed <- r.Body.Close() }()
			_, _ = r.Body.Read(make([]byte, 4))
		}
	})
	conn := dial(t, f.addr)
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: f\r\nContent-Length: 10\r\n\r\nhalf")
	select {
	case err := <-closed:
		if err != nil {
			t.Errorf("Close returned %v", err)
		}
	case <-time.After(2 * time.Minute):
		t.Error("Close has not returned after 2m")
	}
	waitFor(t, "a place", func() bool { status, _ := f.get("/"); return status == http.StatusOK })
}

// A closed body cannot be read, and the rest of it is not parsed as the next request.
func TestClosedBody(t *testing.T) {
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			f := start(t, nil, func(w http.ResponseWriter, r *http.Request) {
				err := r.Body.Close()
				n, readErr := r.Body.Read(make([]byte, 10))
				_, _ = fmt.Fprint(w, err, n, readErr != nil)
			})
			for range 2 { // the second on the same connection
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr, strings.NewReader("body"))
				if status, body := do(t, client, req); status != http.StatusOK || body != "<nil> 0 true" {
					t.Errorf("got %d %q", status, body)
				}
			}
		})
	}
}
