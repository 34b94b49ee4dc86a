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

	"goless.io/runtime/internal/exchange"
)

// healthz serves /healthz. It does not call the handler: a busy or failing handler is no reason
// to restart the container.
func healthz(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "ok\n") // the client may have closed the connection
}

// newRegistry returns the registry of our own metrics. User code can only change the default
// registry.
func newRegistry(c Config) *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "goless_build_info",
		Help: "Always 1; the labels contain the version.",
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

// gatherTimeout limits how long a scrape waits for the user's collectors: half of the default
// timeout of Prometheus.
const gatherTimeout = 5 * time.Second

var errSlowCollector = fmt.Errorf("collectors did not return within %s", gatherTimeout)

// metricsHandler serves our metrics and those that user code registered in the default
// registry. If they conflict, ours are served, the user's metric is omitted, and the conflict
// is logged. If a collector of the user panics or exceeds gatherTimeout, only ours are served.
func metricsHandler(own prometheus.Gatherer, logger *zap.Logger) http.Handler {
	registered := &sharedCall[[]*dto.MetricFamily]{call: gatherDefaultRegistry}
	user := prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		ctx, cancel := context.WithTimeoutCause(context.Background(), gatherTimeout, errSlowCollector)
		defer cancel()
		families, err := registered.do(ctx)
		if err != nil {
			err = fmt.Errorf("gathering the default registry: %w", err)
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

// gatherDefaultRegistry returns the metrics that user code registered. Counters without the
// suffix _total are served as untyped: OpenMetrics adds the suffix to counters, and so their
// name would depend on the requested format.
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

// activityHandler serves /activity. The activator reads it to scale functions to zero, to set the
// number of replicas of functions that scale on requests, and to verify rollouts:
//
//	inFlight         number of running handlers, including those whose request has timed out; a
//	                 hijacked connection counts until its handler returns
//	idleSeconds      time since the last request ended, or since the process started if there was
//	                 none, rounded down to milliseconds; 0 while requests are in flight
//	uptimeSeconds    time since the process started
//	inFlightSeconds  integral of the number of requests in flight over that time, see
//	                 [exchange.Load]; unlike inFlight, without requests that have timed out
//	served           number of requests that have ended, without rejected ones
//	failed           number of served requests with a status of 5xx, a panic, a timeout, or an
//	                 aborted or incomplete response
//	rejected         number of requests that exceeded the concurrency of the function
//
// Requests to the admin port do not count.
func activityHandler(requests *exchange.Server) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		inFlight, idle := requests.Activity()
		load := requests.Load()
		w.Header().Set("Content-Type", "application/json")
		// The client may have closed the connection.
		_, _ = fmt.Fprintf(w, "{\"inFlight\":%d,\"idleSeconds\":%.3f,\"uptimeSeconds\":%.6f,\"inFlightSeconds\":%.6f,\"served\":%d,\"failed\":%d,\"rejected\":%d}\n",
			inFlight, idle.Truncate(time.Millisecond).Seconds(), load.Uptime.Seconds(), load.InFlight.Seconds(), load.Served, load.Failed, load.Rejected)
	}
}

// adminHandler returns the handler of the admin port. It has its own mux, so that handlers that
// an imported package adds to http.DefaultServeMux are not served.
func adminHandler(ready, metrics, activity http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", healthz)
	mux.Handle("GET /activity", activity)
	mux.Handle("GET /readyz", ready)
	mux.Handle("GET /metrics", metrics)
	return mux
}
