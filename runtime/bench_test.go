package runtime

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"goless.io/runtime/internal/exchange"
	"goless.io/runtime/internal/middleware"
)

// The benchmarks compare the cost of a request to a handler that does almost nothing, without
// the network: the bare handler, the handler with our middlewares, and the handler with a
// simple middleware that uses promhttp and zap. The logs are discarded.

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "hello")
})

func BenchmarkBare(b *testing.B) { benchmark(b, hello) }

func BenchmarkRuntime(b *testing.B) { benchmark(b, everything()) }

// everything returns the handler with all middlewares.
func everything() http.Handler {
	c := DefaultConfig()
	c.Name, c.Log, c.RequestConcurrency = "hello", zapcore.AddSync(io.Discard), 100
	log := newProcessLog(c)
	return chain(c, &exchange.Server{Logger: log.Logger, Stall: c.StallTimeout}, hello, prometheus.NewRegistry(), log)
}

// A request costs two allocations: the IDs and the exchange, which are not reused because the
// handler may keep references to them.
func TestAllocations(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("the race detector makes pools drop objects")
	}
	h := everything()
	arrived := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/some/path?query=secret", nil)
	r, w := new(http.Request), &nowhere{header: http.Header{}}
	if n := testing.AllocsPerRun(1000, func() {
		*r = *arrived
		clear(w.header)
		h.ServeHTTP(w, r)
	}); n > 2 {
		t.Errorf("got %v allocations per request, want 2", n)
	}
}

// All metrics of a function follow the naming conventions.
func TestMetricNames(t *testing.T) {
	c := DefaultConfig()
	c.Log = zapcore.AddSync(io.Discard)
	log, reg := newProcessLog(c), newRegistry(c)
	reg.MustRegister(log.dropped)
	middleware.NewUnreadable(reg, log.Logger)
	h := chain(c, &exchange.Server{Logger: log.Logger}, hello, reg, log)
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("promlint reports a problem of %s: %s", problem.Metric, problem.Text)
	}
}

func BenchmarkNaive(b *testing.B) {
	logger := newProcessLog(Config{Name: "hello", Log: zapcore.AddSync(io.Discard)})
	labels := []string{"method", "code"}
	duration := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "duration_seconds"}, labels)
	size := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "size_bytes"}, labels)
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "requests_total"}, labels)
	inFlight := prometheus.NewGauge(prometheus.GaugeOpts{Name: "in_flight"})

	var h http.Handler = hello
	h = promhttp.InstrumentHandlerDuration(duration, h)
	h = promhttp.InstrumentHandlerResponseSize(size, h)
	h = promhttp.InstrumentHandlerCounter(requests, h)
	h = promhttp.InstrumentHandlerInFlight(inFlight, h)
	benchmark(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		logger.Info("request", zap.String("method", r.Method), zap.String("path", r.URL.Path))
	}))
}

// benchmark serves one request repeatedly, each time with its original context.
func benchmark(b *testing.B, h http.Handler) {
	arrived := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/some/path?query=secret", nil)
	r := new(http.Request)
	w := &nowhere{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		*r = *arrived
		clear(w.header)
		h.ServeHTTP(w, r)
	}
}

// nowhere is a response writer with the methods of the server's HTTP/1 writer.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header                        { return w.header }
func (*nowhere) WriteHeader(int)                              {}
func (*nowhere) Write(p []byte) (int, error)                  { return len(p), nil }
func (*nowhere) WriteString(s string) (int, error)            { return len(s), nil }
func (*nowhere) Flush()                                       {}
func (*nowhere) ReadFrom(r io.Reader) (int64, error)          { return io.Copy(io.Discard, r) }
func (*nowhere) CloseNotify() <-chan bool                     { return nil }
func (*nowhere) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }
