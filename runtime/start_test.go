package runtime_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"goless.io/runtime"
)

// function is a handler that runtime.Serve serves on loopback.
type function struct {
	t           *testing.T
	addr, admin string
	log         *lockedBuffer
	// stop starts the drain.
	stop context.CancelFunc
	done chan struct{}
	err  error
}

// start serves handler until the test ends, with no drain delay unless change sets one.
func start(t *testing.T, change func(*runtime.Config), handler http.HandlerFunc) *function {
	t.Helper()
	f := begin(t, change, runtime.Function{Handler: handler})
	waitFor(t, "the function to be ready", func() bool { return f.ready() == http.StatusOK })
	return f
}

// begin is like start for a function with hooks. It does not wait until the function is ready.
func begin(t *testing.T, change func(*runtime.Config), fn runtime.Function) *function {
	t.Helper()
	c := runtime.DefaultConfig()
	c.DrainDelay, c.DrainTimeout = 0, 2*time.Minute
	c.Listener, c.AdminListener = loopback(t), loopback(t)
	f := &function{
		t:     t,
		addr:  c.Listener.Addr().String(),
		admin: "http://" + c.AdminListener.Addr().String(),
		log:   new(lockedBuffer),
		done:  make(chan struct{}),
	}
	c.Log = f.log
	if change != nil {
		change(&c)
	}
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	go func() {
		defer close(f.done)
		f.err = runtime.Serve(ctx, c, fn)
	}()
	t.Cleanup(func() {
		cancel()
		<-f.done
		http.DefaultClient.CloseIdleConnections()
	})
	return f
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ended waits for Serve to return and returns its error.
func (f *function) ended() error {
	<-f.done
	return f.err
}

// get calls a path of the function and returns the status and the body.
func (f *function) get(path string) (int, string) {
	f.t.Helper()
	return get(f.t, "http://"+f.addr+path)
}

func (f *function) ready() int {
	f.t.Helper()
	status, _ := get(f.t, f.admin+"/readyz")
	return status
}

// metric returns the lines of /metrics that begin with prefix.
func (f *function) metric(prefix string) []string {
	f.t.Helper()
	_, body := get(f.t, f.admin+"/metrics")
	return slices.DeleteFunc(strings.Split(body, "\n"), func(line string) bool {
		return !strings.HasPrefix(line, prefix)
	})
}

// requests waits until n requests are logged and returns their lines, in the order in which
// they finished. A client may receive its response before that.
func (f *function) requests(n int) []map[string]any {
	f.t.Helper()
	var lines []map[string]any
	waitFor(f.t, "the log lines of all requests", func() bool {
		lines = slices.DeleteFunc(f.lines(), func(line map[string]any) bool { return line["msg"] != "request" })
		return len(lines) >= n
	})
	if len(lines) != n {
		f.t.Fatalf("%d requests are logged, want %d:\n%s", len(lines), n, f.log)
	}
	return lines
}

// lines returns the log. Each line must be one JSON object.
func (f *function) lines() []map[string]any {
	f.t.Helper()
	return parseLog(f.t, f.log.String())
}

func parseLog(t *testing.T, log string) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for text := range strings.Lines(log) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("not a JSON object: %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return do(t, http.DefaultClient, req)
}

func do(t *testing.T, client *http.Client, req *http.Request) (int, string) {
	t.Helper()
	status, body, err := fetch(client, req)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

// fetch returns an error unless the whole response was received.
func fetch(client *http.Client, req *http.Request) (int, string, error) {
	resp, err := client.Do(req)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), errors.Join(err, resp.Body.Close())
}

// shut closes c at the end of a test.
func shut(c io.Closer) { _ = c.Close() }

// h2c returns a client that uses HTTP/2 without TLS, with prior knowledge.
func h2c(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// waitFor polls until the condition holds, and fails the test after a long timeout.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after 2m waiting for %s", what)
		}
	}
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func (*lockedBuffer) Sync() error { return nil }
