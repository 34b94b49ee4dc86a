package runtime_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"goless.io/runtime"
)

func TestDrainFinishesRequests(t *testing.T) {
	for name, client := range map[string]*http.Client{"HTTP1": http.DefaultClient, "H2C": h2c(t)} {
		t.Run(name, func(t *testing.T) { testDrainFinishesRequests(t, client) })
	}
}

func testDrainFinishesRequests(t *testing.T, client *http.Client) {
	const n = 20
	var running, clients sync.WaitGroup
	finish := make(chan struct{})
	running.Add(n)
	f := start(t, nil, func(w http.ResponseWriter, r *http.Request) {
		running.Done()
		<-finish
		answer(w, r)
	})
	for range n {
		clients.Go(func() {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
			if _, body, err := fetch(client, req); err != nil || body != "hello" {
				t.Errorf("a request got %q, %v", body, err)
			}
		})
	}
	running.Wait()
	f.stop()
	waitFor(t, "readiness to go", func() bool { return f.ready() == http.StatusServiceUnavailable })
	close(finish)
	clients.Wait()
	if err := f.ended(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// A stream that ends when the function drains does not delay the shutdown, and its client
// receives all of it.
func TestDrainingStream(t *testing.T) {
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			f := start(t, func(c *runtime.Config) { c.DrainDelay, c.DrainTimeout = time.Second, time.Hour }, untilDraining)
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr, nil)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer shut(resp.Body)
			f.stop()
			f.drains()
			if body, err := io.ReadAll(resp.Body); string(body) != "begun, drained" || err != nil {
				t.Errorf("got %q, %v", body, err)
			}
			if err := f.ended(); err != nil {
				t.Errorf("Serve returned %v", err)
			}
			if line := f.requests(1)[0]; line["level"] != "info" || line["aborted"] != nil || line["duration"].(float64) < 0.5 {
				t.Errorf("the log line is %v, want a successful request that ended after the delay", line)
			}
		})
	}
}

func untilDraining(w http.ResponseWriter, r *http.Request) {
	_, _ = io.WriteString(w, "begun, ")
	w.(http.Flusher).Flush()
	<-runtime.Draining(r.Context())
	_, _ = io.WriteString(w, "drained")
}

// Without a request, Draining returns nil.
func TestDrainingWithoutRequest(t *testing.T) {
	if c := runtime.Draining(t.Context()); c != nil {
		t.Error("Draining returned a channel, want nil")
	}
}

// During the delay, the function serves requests on old and new connections. Each response asks the
// client to open a new connection. The function is ready in the first half of the delay, so that
// Kubernetes sends it requests if there is no other pod.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *runtime.Config) { c.DrainDelay = 8 * time.Second }, answer)
	old := dial(t, f.addr)
	reader := bufio.NewReader(old)
	if closing := ask(t, old, reader); closing {
		t.Error("the server closes the connection before the drain")
	}

	f.stop()
	f.drains()
	if status := f.ready(); status != http.StatusOK {
		t.Errorf("/readyz: got %d at the beginning of the drain, want 200", status)
	}
	waitFor(t, "readiness to go", func() bool { return f.ready() == http.StatusServiceUnavailable })
	if status, _ := get(t, f.admin+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: got %d while draining, want 200", status)
	}
	if closing := ask(t, old, reader); !closing {
		t.Error("the old connection, idle when the drain began, was not asked to close")
	}
	fresh := dial(t, f.addr)
	if closing := ask(t, fresh, bufio.NewReader(fresh)); !closing {
		t.Error("the new connection was not asked to close")
	}
	if isClosed(f.done) {
		t.Error("Serve returned before the delay was over")
	}
	if err := f.ended(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// ask sends a request over conn, requires a correct response, and reports whether the server
// will close the connection.
func ask(t *testing.T, conn net.Conn, r *bufio.Reader) (closing bool) {
	t.Helper()
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: f\r\n\r\n")
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer shut(resp.Body)
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "hello" {
		t.Fatalf("got %q, %v, want hello", body, err)
	}
	return resp.Close
}

// Clients that send requests on reused connections without a pause lose none of them when the
// server drains. Over HTTP/1.1 this must hold without a retry: a POST with a body that cannot be
// read again is not retried. Over HTTP/2, GOAWAY identifies the streams to retry.
func TestDrainUnderLoad(t *testing.T) {
	t.Run("HTTP1", func(t *testing.T) {
		testDrainUnderLoad(t, func() *http.Client { return &http.Client{Transport: new(http.Transport)} },
			func() io.Reader { return io.MultiReader(strings.NewReader("body")) })
	})
	t.Run("H2C", func(t *testing.T) {
		testDrainUnderLoad(t, func() *http.Client { return h2c(t) },
			func() io.Reader { return strings.NewReader("body") })
	})
}

func testDrainUnderLoad(t *testing.T, newClient func() *http.Client, newBody func() io.Reader) {
	t.Parallel()
	f := start(t, func(c *runtime.Config) { c.DrainDelay = 3 * time.Second }, answer)
	next := start(t, nil, answer) // the other replica
	var target atomic.Pointer[function]
	target.Store(f)

	var sent atomic.Int64
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		clients.Go(func() {
			client := newClient()
			defer client.CloseIdleConnections()
			for !isClosed(stop) {
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+target.Load().addr, newBody())
				if _, _, err := fetch(client, req); err != nil {
					t.Errorf("a request failed after %d: %v", sent.Load(), err)
					return
				}
				sent.Add(1)
			}
		})
	}
	waitFor(t, "some load", func() bool { return sent.Load() > 200 })
	f.stop()
	f.drains()
	target.Store(next) // as the endpoints of a Service would
	err := f.ended()
	close(stop)
	clients.Wait()
	if err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// drains waits until the function drains. It does not ask the admin port, which is soon closed.
func (f *function) drains() {
	f.t.Helper()
	waitFor(f.t, "the drain", func() bool { return strings.Contains(f.log.String(), `"msg":"draining"`) })
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Shutdown of net/http never returns if a connection becomes an HTTP/2 connection after it has
// begun.
func TestDrainLateHTTP2Connection(t *testing.T) {
	t.Parallel()
	f := start(t, func(c *runtime.Config) { c.DrainTimeout = time.Hour }, answer)
	conn := dial(t, f.addr)
	_, _ = io.WriteString(conn, "PRI * HTTP/2.0")
	get(t, "http://"+f.addr) // accepted after the connection above
	f.stop()
	waitFor(t, "the port to close", func() bool {
		c, err := net.Dial("tcp", f.addr)
		if err == nil {
			shut(c)
		}
		return err != nil
	})
	_, _ = io.WriteString(conn, "\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // and empty SETTINGS
	if err := f.ended(); err != nil {
		t.Errorf("Serve returned %v", err)
	}
}

// The drain waits for the handler of a hijacked connection, and not longer.
func TestDrainHijacked(t *testing.T) {
	tests := map[string]struct {
		timeout time.Duration
		hangUp  bool
	}{
		"Ends":  {timeout: 30 * time.Second, hangUp: true},
		"Hangs": {timeout: 20 * time.Millisecond},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			begun := make(chan struct{})
			f := start(t, func(c *runtime.Config) { c.DrainTimeout = test.timeout }, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer shut(conn)
				close(begun)
				_, _ = io.Copy(io.Discard, conn)
			})
			conn := dial(t, f.addr)
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: f\r\n\r\n")
			<-begun
			f.stop()
			f.drains()
			if test.hangUp {
				shut(conn)
			}
			if err := f.ended(); (err == nil) != test.hangUp {
				t.Errorf("Serve returned %v", err)
			}
		})
	}
}

// A request that the drain cuts off is logged, whether its handler returns or not.
func TestDrainLogsWhatItCutsOff(t *testing.T) {
	for protocol, client := range protocols(t) {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			testCutOff(t, client)
		})
	}
}

func testCutOff(t *testing.T, client *http.Client) {
	release, begun := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	f := start(t, func(c *runtime.Config) { c.DrainTimeout = 10 * time.Millisecond }, func(_ http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		if r.URL.Path == "/notices" {
			<-r.Context().Done()
		} else {
			<-release
		}
	})
	for _, path := range []string{"/notices", "/hangs"} {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+f.addr+path, nil)
		req.Header.Set("X-Request-Id", "id-of-"+path[1:])
		go func() {
			if _, _, err := fetch(client, req); err == nil {
				t.Errorf("%s got an answer", path)
			}
		}()
		<-begun
	}
	f.stop()
	if err := f.ended(); err == nil || !strings.Contains(err.Error(), "2 requests were cut off") {
		t.Errorf("Serve returned %v", err)
	}
	if line := f.requests(1)[0]; line["url.path"] != "/notices" || line["aborted"] != true {
		t.Errorf("the log line of the handler that returned is %v", line)
	}
	i := slices.IndexFunc(f.lines(), func(line map[string]any) bool { return line["url.path"] == "/hangs" })
	if i < 0 {
		t.Fatalf("the handler that hangs is not logged:\n%s", f.log)
	}
	if line := f.lines()[i]; line["level"] != "error" || line["http.request.method"] != "GET" || line["request_id"] != "id-of-hangs" {
		t.Errorf("the log line of the handler that hangs is %v", line)
	}
}

func TestServeCannotListen(t *testing.T) {
	taken := loopback(t)
	defer shut(taken)
	port := taken.Addr().(*net.TCPAddr).Port
	for _, variable := range []string{"SERVER_PORT", "ADMIN_PORT"} {
		c := runtime.DefaultConfig()
		c.Log = new(lockedBuffer)
		if variable == "SERVER_PORT" {
			c.ServerPort, c.AdminListener = port, loopback(t)
		} else {
			c.AdminPort, c.Listener = port, loopback(t)
		}
		err := runtime.Serve(t.Context(), c, runtime.Function{Handler: answer})
		if err == nil || !strings.Contains(err.Error(), variable) || !strings.Contains(err.Error(), "in use") {
			t.Errorf("%s is in use: got error %v", variable, err)
		}
	}
}

func TestServeNilHandler(t *testing.T) {
	c := runtime.DefaultConfig()
	c.Listener, c.AdminListener, c.Log = loopback(t), loopback(t), new(lockedBuffer)
	err := runtime.Serve(t.Context(), c, runtime.Function{})
	if err == nil || !strings.Contains(err.Error(), "Function.Handler is nil") {
		t.Errorf("Serve returned %v, want an error about the missing handler", err)
	}
}

// A permanent error of a listener ends the process, so that it is restarted.
func TestServeListenerFails(t *testing.T) {
	var listener net.Listener
	f := start(t, func(c *runtime.Config) { listener = c.Listener }, answer)
	shut(listener)
	if err := f.ended(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Serve returned %v, want an error about the closed listener", err)
	}
}
