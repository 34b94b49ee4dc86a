package proxy

import "github.com/prometheus/client_golang/prometheus"

// Metrics are the metrics of requests.
type Metrics struct {
	registry prometheus.Registerer
	rejected *prometheus.CounterVec
}

// NewMetrics returns registered metrics. It panics if they are already registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{registry: registry, rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "goless_activator_refused_total",
		Help: "Requests that were answered 503, because no pod was there in time, because none can start until the function is mended, because too many were held, or because the function was stopped or deleted.",
	}, []string{"reason"})}
	for _, reason := range []string{"timeout", "broken", "busy", "closed"} {
		m.rejected.WithLabelValues(reason) // exports 0 before the first event
	}
	registry.MustRegister(m.rejected)
	return m
}

// watch registers the metrics that are read from a Server.
func (m *Metrics) watch(s *Server) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "goless_activator_held_requests",
		Help: "Requests that wait for a pod.",
	}, func() float64 { return float64(s.held.Load()) }))
}
