package proxy

import "github.com/prometheus/client_golang/prometheus"

// Metrics are about requests.
type Metrics struct {
	registry prometheus.Registerer
	refused  *prometheus.CounterVec
}

// NewMetrics makes metrics and registers them. It panics if they are registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{registry: registry, refused: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "goless_activator_refused_total",
		Help: "Requests that were answered 503, because no pod was there in time, because none can start until the function is mended, because too many were held, or because the function was stopped or deleted.",
	}, []string{"reason"})}
	for _, reason := range []string{"timeout", "broken", "busy", "closed"} {
		m.refused.WithLabelValues(reason) // each is exported from the start, as 0
	}
	registry.MustRegister(m.refused)
	return m
}

// watch adds the metric that is read from a server.
func (m *Metrics) watch(s *Server) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "goless_activator_held_requests",
		Help: "Requests that wait for a pod.",
	}, func() float64 { return float64(s.held.Load()) }))
}
