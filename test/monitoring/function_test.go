package monitoring

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"goless.io/runtime"
	_ "goless.io/runtime/otlp"
)

// A served is a function that runs in this process and has all kinds of events, with a
// collector for its spans.
type served struct{ url, admin string }

// TestMain configures a collector in the environment, which a parallel test may not change.
func TestMain(m *testing.M) {
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err := errors.Join(os.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL), os.Setenv("OTEL_BSP_SCHEDULE_DELAY", "200")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serve serves until the test ends.
func serve(t *testing.T) served {
	t.Helper()
	limit := debug.SetMemoryLimit(4 << 30)
	t.Cleanup(func() { debug.SetMemoryLimit(limit) })

	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	c := runtime.DefaultConfig()
	c.Name, c.Namespace, c.Revision = "measured", "default", "abc"
	c.DrainDelay = 0
	c.Listener, c.AdminListener = loopback(t), loopback(t)
	c.RequestTimeout, c.RequestConcurrency = 100*time.Millisecond, 2
	c.Log = log
	s := served{"http://" + c.Listener.Addr().String(), c.AdminListener.Addr().String()}

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- runtime.Serve(ctx, c, runtime.Function{Handler: handle}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if t.Failed() {
			text, _ := os.ReadFile(log.Name()) // as much as there is
			t.Logf("the function logged:\n%.4000s", text)
		}
	})
	return s
}

func handle(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/panic":
		panic("oh")
	case "/missing":
		http.NotFound(w, r)
	case "/slow":
		<-r.Context().Done()
	default:
		_, _ = io.Copy(w, r.Body)
	}
}

func loopback(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// load sends all kinds of requests until the test ends. Four slow requests run at a time, two
// of which exceed the limit.
func (s served) load(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for _, path := range []string{"/slow", "/slow", "/slow", "/slow", "/", "/missing", "/panic"} {
		clients.Go(func() {
			for ctx.Err() == nil {
				s.ask(ctx, path)
			}
		})
	}
	t.Cleanup(func() {
		cancel()
		clients.Wait()
	})
}

// ask sends one sampled request, ignores its result, and pauses.
func (s served) ask(ctx context.Context, path string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader("some text"))
	if err != nil {
		panic(err) // the URL is ours
	}
	req.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if resp, err := http.DefaultClient.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body) // what it is does not matter
		_ = resp.Body.Close()
	}
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Millisecond):
	}
}
