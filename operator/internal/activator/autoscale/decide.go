package autoscale

import (
	"goless.io/operator/internal/activator/backend"
)

// tolerance is the part of the target by which the load may differ from it without a change of the
// number of replicas, as with a HorizontalPodAutoscaler.
const tolerance = 0.1

// A Load is the load of the ready pods of a function. If there are many, only some are polled.
type Load struct {
	Ready        int     // ready pods
	Polled       int     // polled pods with a known load, plus unresponsive ones
	Unresponsive int     // polled pods that did not respond
	Requests     float64 // sum of the average numbers of requests in flight of the pods that responded
	Fresh        bool    // whether this evaluation polled a pod; unresponsive pods are skipped during their backoff
}

// Unknown reports whether too few pods responded for a decision.
func (l Load) Unknown() bool { return l.Polled == 0 || 2*l.Unresponsive > l.Polled }

// total extrapolates the requests in flight to all ready pods. Each unresponsive pod counts with the
// given number of requests.
func (l Load) total(unresponsive float64) float64 {
	return (l.Requests + float64(l.Unresponsive)*unresponsive) / float64(l.Polled) * float64(l.Ready)
}

// An Observation is what a decision depends on.
type Observation struct {
	Scaling backend.Scaling
	Current int32 // replicas, at least 1
	Load    Load  // Load.Unknown must be false

	// Highest is the highest recommendation of the last minutes. Replicas are not removed below it.
	Highest int32
	// Limit is the maximum number of replicas after a scale-up now.
	Limit int32
}

// A Reason explains a Decision in metrics.
type Reason string

// The reasons of decisions.
const (
	Steady  Reason = "steady"  // the number of replicas is already the recommended one
	Bound   Reason = "bound"   // the load requires more replicas than spec.scaling.max
	Up      Reason = "up"      // replicas are added
	Limited Reason = "limited" // fewer replicas are added than the load requires: at most double or 4 more in 15 seconds
	Down    Reason = "down"    // replicas are removed
	Waiting Reason = "waiting" // no replicas are removed, because more were recommended a short time ago
	Unknown Reason = "unknown" // most pods did not respond
)

// A Decision is the result of [Decide].
type Decision struct {
	Replicas int32
	Reason   Reason
	// Recommended is what the load requires, within the bounds of the function. Replicas may differ
	// from it for a while.
	Recommended int32
}

// Decide returns the number of replicas of a function. A pod that did not respond counts as idle for
// a scale-up, and as fully loaded for a scale-down.
func Decide(o Observation) Decision {
	target := float64(o.Scaling.Requests)
	required := o.Current
	if load := o.Load.total(0); load > (1+tolerance)*target*float64(o.Current) {
		required = o.Scaling.Replicas(load)
	} else if load := o.Load.total(target); load < (1-tolerance)*target*float64(o.Current) {
		required = o.Scaling.Replicas(load)
	}
	d := Decision{Recommended: min(max(required, o.Scaling.Min), o.Scaling.Max)}
	switch {
	case d.Recommended > o.Current:
		d.Replicas, d.Reason = d.Recommended, Up
		// The bounds of the function apply immediately.
		if limit := max(o.Limit, o.Scaling.Min); limit < d.Recommended {
			d.Replicas, d.Reason = max(limit, o.Current), Limited
		}
	case d.Recommended < o.Current:
		d.Replicas, d.Reason = min(max(d.Recommended, min(o.Highest, o.Current)), o.Scaling.Max), Down
		if d.Replicas == o.Current {
			d.Reason = Waiting
		}
	default:
		d.Replicas, d.Reason = o.Current, Steady
	}
	if d.Replicas == o.Scaling.Max && o.Load.total(0) > (1+tolerance)*target*float64(o.Scaling.Max) {
		d.Reason = Bound
	}
	return d
}
