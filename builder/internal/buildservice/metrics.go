package buildservice

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics contains the metrics of a Service. None has a namespace label, because every client that
// can reach the port can read them.
type metrics struct {
	registry *prometheus.Registry
	builds   *prometheus.HistogramVec // by reason
	waited   prometheus.Histogram
	fetches  *prometheus.CounterVec // by client: pod or replica
}

func newMetrics(s *Service) *metrics {
	buckets := []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		builds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "goless_build_service_build_duration_seconds",
			Help:    "Duration of builds in seconds, by result.",
			Buckets: buckets,
		}, []string{"reason"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "goless_build_service_queue_duration_seconds",
			Help:    "Seconds that builds were queued.",
			Buckets: buckets,
		}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_build_service_fetches_total",
			Help: "Binaries sent, to pods or to other replicas.",
		}, []string{"by"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "goless_build_service_build_info",
		Help:        "Always 1; the labels contain the version.",
		ConstLabels: prometheus.Labels{"version": s.config.Version, "commit": s.config.Commit, "go_version": runtime.Version()},
	})
	info.Set(1)
	m.registry.MustRegister(info,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.builds, m.waited, m.fetches,
		gauge("goless_build_service_queue_length", "Number of queued builds.", func() float64 {
			s.queue.mu.Lock()
			defer s.queue.mu.Unlock()
			return float64(s.queue.sum.builds)
		}),
		gauge("goless_build_service_store_bytes", "Size of the results in the store.", func() float64 {
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			return float64(s.store.size)
		}),
		gauge("goless_build_service_store_results", "Number of results in the store.", func() float64 {
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			return float64(len(s.store.stored))
		}),
	)
	return m
}

func (m *metrics) built(reason string, took, waited time.Duration) {
	m.builds.WithLabelValues(reason).Observe(took.Seconds())
	m.waited.Observe(waited.Seconds())
}

func (m *metrics) fetched(byPeer bool) {
	by := "pod"
	if byPeer {
		by = "replica"
	}
	m.fetches.WithLabelValues(by).Inc()
}

// ServeMetrics serves metrics over plain HTTP without authentication until ctx ends.
func (s *Service) ServeMetrics(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return servePlain(ctx, listener, mux)
}
