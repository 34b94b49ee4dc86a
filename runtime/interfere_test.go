package runtime_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/http"
	_ "net/http/pprof" // registers handlers in the default mux
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// interfere changes the process in ways that user code and its imports can.
func interfere() {
	for _, path := range []string{"/metrics", "/healthz", "/readyz", "/mine"} {
		http.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	}
	http.DefaultTransport = http.NewFileTransport(http.Dir("/"))
	http.DefaultClient = nil
	log.SetOutput(io.Discard)
	slog.SetDefault(slog.New(slog.DiscardHandler))
	zap.ReplaceGlobals(zap.NewNop())
	prometheus.DefaultRegisterer = prometheus.NewRegistry()
	prometheus.DefaultGatherer = prometheus.DefaultRegisterer.(prometheus.Gatherer)
	prometheus.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "http_server_active_requests"}, func() float64 { return -1 }))
	prometheus.MustRegister(brokenCollector{})
}

// brokenCollector panics in a goroutine of the registry.
type brokenCollector struct{}

func (brokenCollector) Describe(chan<- *prometheus.Desc)    {}
func (brokenCollector) Collect(ch chan<- prometheus.Metric) { panic("broken") }

// Changes by user code do not affect how the function is served, observed and shut down.
func TestMainInterference(t *testing.T) {
	t.Parallel()
	p := launch(t, "DRAIN_DELAY=0s")
	get(t, p.url+"/interfere")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/mine": 404, "/debug/pprof/": 404, "/debug/pprof/cmdline": 404} {
		if status, _ := get(t, p.admin+path); status != want {
			t.Errorf("%s on the admin port: got %d, want %d", path, status, want)
		}
		if status, body := get(t, p.url+path); status != 200 || body != "" {
			t.Errorf("%s on the function's port: got %d %q, want the handler's response", path, status, body)
		}
	}
	if body := p.scrape("text/plain"); !strings.Contains(body, "\nhttp_server_active_requests 0\n") || !strings.Contains(body, "\ntotal_invocations 6\n") {
		t.Errorf("our metrics are not served:\n%s", body)
	}
	p.signal(syscall.SIGTERM)
	p.exits(0)
	p.logs("info", "drained")
	if n := strings.Count(p.log.String(), `"msg":"request"`); n != 6 {
		t.Errorf("%d requests are logged, want 6:\n%s", n, p.log)
	}
}

// The number of series is bounded, regardless of methods and paths.
func TestSeriesAreBounded(t *testing.T) {
	f := start(t, nil, answer)
	conn := dial(t, f.addr)
	reader := bufio.NewReader(conn)
	send := func(method, path string) {
		_, _ = fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: f\r\n\r\n", method, path)
		resp, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer shut(resp.Body)
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	send("FIRST", "/")
	f.requests(1)
	before := len(f.metric("http_")) + len(f.metric("goless_")) + len(f.metric("total_"))
	for range 10_000 {
		send(fmt.Sprintf("M%X", rand.Uint64()), fmt.Sprintf("/%x?%x", rand.Uint64(), rand.Uint64()))
	}
	f.requests(10_001)
	if after := len(f.metric("http_")) + len(f.metric("goless_")) + len(f.metric("total_")); after != before {
		t.Errorf("the number of series grew from %d to %d", before, after)
	}
}
