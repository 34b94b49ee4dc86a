package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what can be counted without saying whose build it was.
type metrics struct {
	registry *prometheus.Registry
	builds   *prometheus.HistogramVec // by reason
	waited   prometheus.Histogram
	fetches  *prometheus.CounterVec // by who asked
}

func newMetrics(s *Service) *metrics {
	buckets := []float64{0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		builds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "goless_build_service_build_duration_seconds",
			Help:    "How long builds took, by how they ended.",
			Buckets: buckets,
		}, []string{"reason"}),
		waited: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "goless_build_service_queue_duration_seconds",
			Help:    "How long builds have waited for their turn.",
			Buckets: buckets,
		}),
		fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_build_service_fetches_total",
			Help: "Binaries that were sent, by whether a pod or another replica has asked.",
		}, []string{"by"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "goless_build_service_" + name, Help: help}, value)
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		m.builds, m.waited, m.fetches,
		gauge("queue_length", "Builds that wait for their turn.", func() float64 {
			s.queue.mu.Lock()
			defer s.queue.mu.Unlock()
			return float64(s.queue.sum.builds)
		}),
		gauge("store_bytes", "What the store keeps on disk.", func() float64 {
			s.store.mu.Lock()
			defer s.store.mu.Unlock()
			return float64(s.store.size)
		}),
		gauge("store_results", "How many results the store keeps.", func() float64 {
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

// ServeMetrics answers Prometheus, without any secret, until ctx ends.
func (s *Service) ServeMetrics(ctx context.Context, listener net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })() // a scrape is nothing to wait for
	if err := server.Serve(&door{Listener: listener}); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
