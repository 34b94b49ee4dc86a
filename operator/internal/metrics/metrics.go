// Package metrics owns what an administrator counts: how Functions fare, how
// builds end, how long a change takes until it serves. It refuses to know how any
// of that is brought about, and the figures of the machinery below, which
// controller-runtime has.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

// Metrics are the operator's own. The zero value is not usable: see New.
type Metrics struct {
	builds    *prometheus.CounterVec
	durations *prometheus.HistogramVec
	ready     prometheus.Histogram
	rollouts  prometheus.Counter
	judged    *prometheus.CounterVec

	mu      sync.Mutex
	changed map[types.NamespacedName]time.Time
}

// New makes metrics and registers them. It returns an error if they are already
// registered.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		builds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_builds_total",
			Help: "Builds of functions by how they ended, the reason of the Built condition. A revision counts once for each.",
		}, []string{"reason"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "goless_build_duration_seconds",
			Help:    "Time that builds of functions took, of those that could tell.",
			Buckets: []float64{0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256},
		}, []string{"reason"}),
		ready: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "goless_function_ready_duration_seconds",
			Help:    "Time from a change of a Function until the changed function was ready.",
			Buckets: []float64{0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
		}),
		rollouts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "goless_rollouts_total",
			Help: "Changes of what the pods of functions are made of, first ones included.",
		}),
		judged: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_admissions_total",
			Help: "Functions and FunctionClasses that were applied, by the answer of admission: Allowed, Refused, or Unjudged, which lets pass as well.",
		}, []string{"answer"}),
		changed: map[types.NamespacedName]time.Time{},
	}
	for _, answer := range []string{Allowed, Refused, Unjudged} {
		m.judged.WithLabelValues(answer) // all of them are there from the start
	}
	for _, collector := range []prometheus.Collector{m.builds, m.durations, m.ready, m.rollouts, m.judged} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Answers of admission.
const (
	Allowed  = "Allowed"
	Refused  = "Refused"
	Unjudged = "Unjudged"
)

// Judged counts an answer of admission.
func (m *Metrics) Judged(answer string) { m.judged.WithLabelValues(answer).Inc() }

// RolledOut counts a change of a pod template.
func (m *Metrics) RolledOut() { m.rollouts.Inc() }

// Changed notes that a Function was seen whose status speaks of another
// generation.
func (m *Metrics) Changed(fn *v1beta1.Function, now time.Time) {
	if fn.Generation == fn.Status.ObservedGeneration {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}
	if _, ok := m.changed[key]; !ok {
		m.changed[key] = now
	}
}

// Reported counts what is new in the status of a Function.
func (m *Metrics) Reported(fn *v1beta1.Function, before v1beta1.FunctionStatus, now time.Time) {
	m.build(fn.Status, before)
	if !meta.IsStatusConditionTrue(fn.Status.Conditions, v1beta1.ConditionReady) {
		return
	}
	m.mu.Lock()
	key := types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}
	since, ok := m.changed[key]
	delete(m.changed, key)
	m.mu.Unlock()
	if ok {
		m.ready.Observe(now.Sub(since).Seconds())
	}
}

func (m *Metrics) build(status, before v1beta1.FunctionStatus) {
	is := meta.FindStatusCondition(status.Conditions, v1beta1.ConditionBuilt)
	was := meta.FindStatusCondition(before.Conditions, v1beta1.ConditionBuilt)
	switch {
	case is == nil || is.Status == metav1.ConditionUnknown || is.Reason == v1beta1.ReasonInvalidSource:
		return // nothing was compiled
	case was != nil && was.Reason == is.Reason && before.LatestRevision == status.LatestRevision:
		return
	}
	m.builds.WithLabelValues(is.Reason).Inc()
	if status.Build == nil || status.Build.Revision != status.LatestRevision {
		return // the kernel ended it, and it left no report
	}
	if took, err := time.ParseDuration(status.Build.Duration); err == nil {
		m.durations.WithLabelValues(is.Reason).Observe(took.Seconds())
	}
}

// Forget drops what is known of a deleted Function.
func (m *Metrics) Forget(fn types.NamespacedName) {
	m.mu.Lock()
	delete(m.changed, fn)
	m.mu.Unlock()
}
