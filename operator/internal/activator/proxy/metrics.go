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
		Help: "Requests that the activator rejected with 503, by reason: no pod was ready in time, no pod can start until the function is fixed, too many requests were held, or the function was stopped or deleted.",
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
		Help: "Number of requests that wait for a pod.",
	}, func() float64 { return float64(s.held.Load()) }))
}
