package runtime

import (
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// readiness is what /readyz answers.
type readiness struct{ state atomic.Value }

const ready = "ready"

func newReadiness() *readiness {
	r := new(readiness)
	r.set("starting")
	return r
}

func (r *readiness) set(state string) { r.state.Store(state) }

func (r *readiness) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	state := r.state.Load().(string)
	if state != ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = io.WriteString(w, state+"\n") // a probe that hangs up is no fault
}

// alive answers /healthz. It asks nothing of the handler: a handler that is
// busy, or fails, is no reason to kill the process.
func alive(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n") // as above
}

// newRegistry returns the registry of our own metrics. It is not the default
// one, where user code may register what it likes.
func newRegistry(c Config) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "goless_build_info",
		Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{
			"function":   c.Name,
			"namespace":  c.Namespace,
			"revision":   c.Revision,
			"go_version": goruntime.Version(),
		},
	})
	info.Set(1)
	reg.MustRegister(info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// metricsHandler serves our metrics, and with them what user code registered
// in the default registry. Ours come first and win: a user's metric that
// contradicts one is left out and named in the log, the rest is served.
func metricsHandler(own prometheus.Gatherer, logger *zap.Logger) http.Handler {
	user := prometheus.GathererFunc(guarded(prometheus.DefaultGatherer.Gather))
	return promhttp.HandlerFor(prometheus.Gatherers{own, user}, promhttp.HandlerOpts{
		ErrorLog:      serverLog(logger),
		ErrorHandling: promhttp.ContinueOnError,
		// Not OpenMetrics: its text renames the counters that lack _total, and
		// total_invocations is a promise.
		EnableOpenMetrics:   false,
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	})
}

// guarded turns a panic of gather into an error: the function behind a user's
// gauge must not cost us our own metrics.
func guarded[F any](gather func() (families []F, err error)) func() ([]F, error) {
	return func() (families []F, err error) {
		defer func() {
			if v := recover(); v != nil {
				families, err = nil, fmt.Errorf("a collector of the default registry panicked: %v", v)
			}
		}()
		return gather()
	}
}

// adminHandler is all that the admin port serves, on a mux of its own: what an
// import adds to http.DefaultServeMux is not reachable.
func adminHandler(ready, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", alive)
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /metrics", metrics)
	return mux
}
