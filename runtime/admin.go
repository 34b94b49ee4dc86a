package runtime

import (
	"context"
	"fmt"
	"io"
	"net/http"
	goruntime "runtime"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/zap"
)

// healthz answers /healthz. It does not ask the handler: that it is busy, or fails,
// is no reason to kill the process.
func healthz(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n") // a probe that hangs up is no fault
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
			"version":    c.Version,
			"go_version": goruntime.Version(),
		},
	})
	info.Set(1)
	reg.MustRegister(info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// gatherTimeout is for how long a scrape waits for the user's collectors: half of
// what Prometheus waits that was not told otherwise.
const gatherTimeout = 5 * time.Second

var errSlowCollector = fmt.Errorf("its collectors did not return within %s", gatherTimeout)

// metricsHandler serves our metrics, and with them what user code registered
// in the default registry. Ours come first and win: a user's metric that
// contradicts one is left out and named in the log, the rest is served. So are
// ours alone if a user's collector panics or hangs.
func metricsHandler(own prometheus.Gatherer, logger *zap.Logger) http.Handler {
	registered := &sharedCall[[]*dto.MetricFamily]{call: gatherDefaultRegistry}
	user := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		ctx, cancel := context.WithTimeoutCause(context.Background(), gatherTimeout, errSlowCollector)
		defer cancel()
		families, err := registered.ask(ctx)
		if err != nil {
			err = fmt.Errorf("the default registry: %w", err)
		}
		return families, err
	})
	return promhttp.HandlerFor(prometheus.Gatherers{own, user}, promhttp.HandlerOpts{
		ErrorLog:            serverLog(logger),
		ErrorHandling:       promhttp.ContinueOnError,
		EnableOpenMetrics:   true, // for the exemplars
		MaxRequestsInFlight: 4,
		Timeout:             10 * time.Second,
	})
}

// gatherDefaultRegistry returns what user code registered. OpenMetrics adds _total to the
// name of a counter that lacks it; a metric must not have two names, by which
// format was asked for, so such a counter is served without its type.
func gatherDefaultRegistry() ([]*dto.MetricFamily, error) {
	families, err := prometheus.DefaultGatherer.Gather()
	for _, family := range families {
		if family.GetType() == dto.MetricType_COUNTER && !strings.HasSuffix(family.GetName(), "_total") {
			family.Type = dto.MetricType_UNTYPED.Enum()
			for _, metric := range family.GetMetric() {
				metric.Untyped, metric.Counter = &dto.Untyped{Value: metric.GetCounter().Value}, nil
			}
		}
	}
	return families, err
}

// activityHandler serves /activity: how many requests to the function are in flight, and for how many
// seconds there have been none, rounded down to the millisecond; 0 while there are some. The time begins
// when the last request ended, or when the process started. Hijacked connections count until their handler
// returns, requests to the admin port do not count. The activator uses it to scale functions to zero.
func activityHandler(activity func() (inFlight int64, idle time.Duration)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		inFlight, idle := activity()
		w.Header().Set("Content-Type", "application/json")
		// Who hangs up is no fault.
		_, _ = fmt.Fprintf(w, "{\"inFlight\":%d,\"idleSeconds\":%.3f}\n", inFlight, idle.Truncate(time.Millisecond).Seconds())
	}
}

// adminHandler is all that the admin port serves, on a mux of its own: what an
// import adds to http.DefaultServeMux is not reachable.
func adminHandler(ready, metrics, activity http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.Handle("GET /activity", activity)
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /metrics", metrics)
	return mux
}
