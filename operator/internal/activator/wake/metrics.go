package wake

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The phases of a wake-up. The duration of each starts with the first request.
const (
	phaseScaled   = "scaled"   // the API server has accepted the new number of replicas
	phaseSeen     = "seen"     // the cache contains a pod
	phaseAnswered = "answered" // a pod is ready
)

// Metrics are the metrics of wake-ups.
type Metrics struct {
	wakes    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics returns registered metrics. It panics if they are already registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		wakes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_activator_wakes_total",
			Help: "Wakes of functions by result: woken or failed.",
		}, []string{"result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "goless_activator_wake_duration_seconds",
			Help:    "Seconds from the request that wakes a function to each phase: scaled, a pod was seen, the pod answered.",
			Buckets: []float64{.01, .025, .05, .1, .2, .3, .5, .75, 1, 2, 4, 8, 16, 32, 64},
		}, []string{"phase"}),
	}
	for _, result := range []string{"woken", "failed"} {
		m.wakes.WithLabelValues(result) // exports 0 before the first event
	}
	registry.MustRegister(m.wakes, m.duration)
	return m
}

// record records the result of an attempt if it was a wake-up.
func (m *Metrics) record(s stopwatch, err error) {
	switch {
	case s.started.IsZero() || errors.Is(err, ErrStopped):
	case err != nil:
		m.wakes.WithLabelValues("failed").Inc()
	default:
		m.wakes.WithLabelValues("woken").Inc()
	}
}

// A stopwatch observes the duration of each phase of a wake-up once.
type stopwatch struct {
	started time.Time // zero if this is not a wake-up
	done    map[string]bool
}

func (s *stopwatch) start() {
	if s.started.IsZero() {
		s.started, s.done = time.Now(), map[string]bool{}
	}
}

func (s *stopwatch) observe(m *Metrics, phase string) {
	if !s.started.IsZero() && !s.done[phase] {
		s.done[phase] = true
		m.duration.WithLabelValues(phase).Observe(time.Since(s.started).Seconds())
	}
}
