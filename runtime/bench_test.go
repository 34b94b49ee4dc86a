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

// The benchmarks compare the cost of one request around a handler that does
// next to nothing, without the network: nothing around it, our middlewares,
// and what one writes in an afternoon with promhttp and zap. All of them log
// into nowhere.

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "hello")
})

func BenchmarkBare(b *testing.B) { benchmark(b, hello) }

func BenchmarkRuntime(b *testing.B) { benchmark(b, everything()) }

// everything returns the handler with all that we put around it.
func everything() http.Handler {
	c := DefaultConfig()
	c.Name, c.Log, c.RequestConcurrency = "hello", zapcore.AddSync(io.Discard), 100
	log := newProcessLog(c)
	return chain(c, &exchange.Server{Logger: log.Logger, Stall: c.StallTimeout}, hello, prometheus.NewRegistry(), log)
}

// A request costs four allocations: its ids and the exchange, which are not used
// again because the handler may have kept them, and two for the timer of its limit.
func TestAllocations(t *testing.T) {
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		t.Skip("under the race detector pools forget what they hold")
	}
	h := everything()
	arrived := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/some/path?query=secret", nil)
	r, w := new(http.Request), &nowhere{header: http.Header{}}
	if n := testing.AllocsPerRun(1000, func() {
		*r = *arrived
		clear(w.header)
		h.ServeHTTP(w, r)
	}); n > 4 {
		t.Errorf("a request costs %v allocations, want 4", n)
	}
}

// The names of all metrics that a function has are as they should be.
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
		t.Errorf("promlint says of %s: %s", problem.Metric, problem.Text)
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

// benchmark serves one request again and again, each time with the context
// that it arrived with.
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

// nowhere is a response writer that offers what the HTTP/1 server's does.
type nowhere struct{ header http.Header }

func (w *nowhere) Header() http.Header                        { return w.header }
func (*nowhere) WriteHeader(int)                              {}
func (*nowhere) Write(p []byte) (int, error)                  { return len(p), nil }
func (*nowhere) WriteString(s string) (int, error)            { return len(s), nil }
func (*nowhere) Flush()                                       {}
func (*nowhere) ReadFrom(r io.Reader) (int64, error)          { return io.Copy(io.Discard, r) }
func (*nowhere) CloseNotify() <-chan bool                     { return nil }
func (*nowhere) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, http.ErrNotSupported }
