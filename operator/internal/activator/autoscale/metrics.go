package autoscale

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/activator/backend"
)

// maxSeries is the number of functions that have metrics of their own. Those of further functions
// are left out.
const maxSeries = 1000

// functionLabels do not contain namespace, because Prometheus sets that label to the namespace of the
// activator.
var functionLabels = []string{"function_namespace", "function"}

// Metrics are the metrics of the functions that scale by their requests in flight. Only the leader
// exports the metrics with a function label.
type Metrics struct {
	decisions                    *prometheus.CounterVec
	desired, current, most, load *prometheus.GaugeVec

	mu        sync.Mutex
	functions map[types.NamespacedName]bool // those with metrics of their own
}

// NewMetrics returns registered metrics. It panics if they are already registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, functionLabels)
		registry.MustRegister(g)
		return g
	}
	m := &Metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_activator_scaling_decisions_total",
			Help: "Decisions about the replicas of functions that scale on requests, by reason: steady, bound, up, limited, down, waiting or unknown.",
		}, []string{"reason"}),
		desired:   gauge("goless_activator_scaling_desired_replicas", "Replicas that the requests to a function require, within its bounds. At most 1000 functions have this metric."),
		current:   gauge("goless_activator_scaling_replicas", "Number of replicas of a function that scales on requests, as last read or set by the activator."),
		most:      gauge("goless_activator_scaling_max_replicas", "Maximum number of replicas of a function that scales on requests."),
		load:      gauge("goless_activator_scaling_requests", "Load of a function that scales on requests: the average number of requests in flight over the last 6 seconds, summed over its pods, plus an estimate for rejected requests."),
		functions: map[types.NamespacedName]bool{},
	}
	for _, reason := range []Reason{Steady, Bound, Up, Limited, Down, Waiting, Unknown} {
		m.decisions.WithLabelValues(string(reason)) // exports 0 before the first event
	}
	registry.MustRegister(m.decisions)
	return m
}

// record records a decision. current is the number of replicas before it.
func (m *Metrics) record(b backend.Backend, load Load, d Decision, current int32) {
	m.decisions.WithLabelValues(string(d.Reason)).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.functions[b.Function] {
		if len(m.functions) >= maxSeries {
			return
		}
		m.functions[b.Function] = true
	}
	for gauge, value := range map[*prometheus.GaugeVec]float64{
		m.desired: float64(d.Recommended), m.current: float64(current), m.most: float64(b.Scaling.Max), m.load: load.total(0),
	} {
		gauge.WithLabelValues(b.Function.Namespace, b.Function.Name).Set(value)
	}
}

// unknown records that the load of a function is unknown.
func (m *Metrics) unknown(function types.NamespacedName) {
	m.decisions.WithLabelValues(string(Unknown)).Inc()
	m.forget(function)
}

// forget removes the metrics of a function.
func (m *Metrics) forget(function types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.functions[function] {
		return
	}
	delete(m.functions, function)
	for _, gauge := range []*prometheus.GaugeVec{m.desired, m.current, m.most, m.load} {
		gauge.DeleteLabelValues(function.Namespace, function.Name)
	}
}
