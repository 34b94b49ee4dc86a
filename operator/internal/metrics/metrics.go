// Package metrics defines the metrics of the operator: the state of Functions, the results of
// builds, rollouts, verifications and admission requests, and the time until a change of a Function
// is ready. Metrics of the controllers and of the
// client come from controller-runtime.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// Metrics are the metrics of the operator. Use New; the zero value is not usable.
type Metrics struct {
	builds     *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	ready      prometheus.Histogram
	rollouts   prometheus.Counter
	verified   *prometheus.CounterVec
	admissions *prometheus.CounterVec

	// changed contains, by the name of a Function, the time since which its status does not match
	// its generation.
	changed sync.Map
}

// New returns registered metrics. It returns an error if they are already registered.
func New(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		builds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_builds_total",
			Help: "Builds of functions by result, the reason of the condition Built. Each revision counts once per result.",
		}, []string{"reason"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "goless_build_duration_seconds",
			Help:    "Duration of builds in seconds, if the builder reported it.",
			Buckets: []float64{0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256},
		}, []string{"reason"}),
		ready: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "goless_function_ready_duration_seconds",
			Help:    "Seconds from a change of a Function until it was ready.",
			Buckets: []float64{0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512},
		}),
		rollouts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "goless_rollouts_total",
			Help: "Changes of the pod templates of functions, including the first one.",
		}),
		verified: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_rollout_verifications_total",
			Help: "Verified rollouts by result: Passed, Inconclusive (continued although no decision was possible, for example because there were too few requests) or RolledBack.",
		}, []string{"result"}),
		admissions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "goless_admissions_total",
			Help: "Admission reviews of Functions and FunctionClasses by result: Allowed, Refused, or NotValidated (allowed without validation).",
		}, []string{"answer"}),
	}
	for _, answer := range []string{Allowed, Denied, NotValidated} {
		m.admissions.WithLabelValues(answer) // exports 0 before the first event
	}
	for _, result := range []string{"Passed", "Inconclusive", "RolledBack"} {
		m.verified.WithLabelValues(result)
	}
	for _, collector := range []prometheus.Collector{m.builds, m.durations, m.ready, m.rollouts, m.verified, m.admissions} {
		if err := registry.Register(collector); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Answers of the admission webhook, as in the label of goless_admissions_total.
const (
	Allowed      = "Allowed"
	Denied       = "Refused"
	NotValidated = "NotValidated" // allowed without validation: the webhook was busy, could not read an object, or failed
)

// RecordAdmission counts an answer of the admission webhook: Allowed, Denied or NotValidated.
func (m *Metrics) RecordAdmission(answer string) { m.admissions.WithLabelValues(answer).Inc() }

// RolledOut counts a change of a pod template.
func (m *Metrics) RolledOut() { m.rollouts.Inc() }

// Verified counts the result of a verified rollout: Passed, Inconclusive or RolledBack.
func (m *Metrics) Verified(result string) { m.verified.WithLabelValues(result).Inc() }

// Changed records the time at which a Function was first seen with a status of an older generation.
func (m *Metrics) Changed(fn *v1beta1.Function, now time.Time) {
	if fn.Generation != fn.Status.ObservedGeneration {
		m.changed.LoadOrStore(client.ObjectKeyFromObject(fn), now)
	}
}

// Reported records what a new status adds to the previous one: the result of a build, and the time
// since Changed if the Function is ready.
func (m *Metrics) Reported(fn *v1beta1.Function, before v1beta1.FunctionStatus, now time.Time) {
	m.build(fn.Status, before)
	if !meta.IsStatusConditionTrue(fn.Status.Conditions, v1beta1.ConditionReady) {
		return
	}
	if since, ok := m.changed.LoadAndDelete(client.ObjectKeyFromObject(fn)); ok {
		m.ready.Observe(now.Sub(since.(time.Time)).Seconds())
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
		return // the build was killed and left no report
	}
	if took, err := time.ParseDuration(status.Build.Duration); err == nil {
		m.durations.WithLabelValues(is.Reason).Observe(took.Seconds())
	}
}

// Forget removes the state of a deleted Function.
func (m *Metrics) Forget(fn types.NamespacedName) { m.changed.Delete(fn) }
