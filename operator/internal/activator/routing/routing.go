// Package routing decides whether the activators receive the requests of a function, and which step
// of its scale-down is next. It does not access the cluster.
//
//	routing.go  routing decisions and the steps of a scale-down
//	slice.go    the EndpointSlices that route requests to the activators
//	ports.go    allocates the ports on which the activators listen
package routing

import (
	"slices"
	"time"
)

// An Observation is the observed state of a function.
type Observation struct {
	Now time.Time
	// Settle is the longest time until a change of the endpoints of a Service has reached all
	// nodes.
	Settle time.Duration
	// Ready contains, for each ready pod, the time at which this process first saw it ready. The
	// pod's own timestamp is not used, because the clock of its node may differ. A pod that is
	// being deleted is not ready.
	Ready []time.Time
	// Routed is true if the EndpointSlices list an activator.
	Routed bool
	// ScaleDown is zero if no scale-down is in progress.
	ScaleDown ScaleDown
}

// ScaleDown is the progress of a scale-down to zero.
type ScaleDown struct {
	RoutedAt time.Time // when the EndpointSlices were changed to list all activators
	ScaledAt time.Time // when the Deployment was scaled to 0; zero before that
}

// untilSettled returns the time until all nodes know of a change made at the given time. It is zero
// or negative if they already do.
func (o Observation) untilSettled(changed time.Time) time.Duration {
	return changed.Add(o.Settle).Sub(o.Now)
}

// ScalingDown reports whether a scale-down has started and ready pods remain. If pods are still
// ready when the time Settle has passed since the Deployment was scaled to 0, another client has
// scaled it up, and the result is false.
func (o Observation) ScalingDown() bool {
	scaleDown := !o.ScaleDown.RoutedAt.IsZero()
	scaled := !o.ScaleDown.ScaledAt.IsZero()
	return scaleDown && len(o.Ready) > 0 && (!scaled || o.untilSettled(o.ScaleDown.ScaledAt) > 0)
}

// NeedsActivators reports whether the EndpointSlices must list the activators. recheck is the time
// after which the answer changes without any event; 0 means never.
//
// The activators are needed while no pod is ready and during a scale-down. A ready pod receives all
// requests once every node knows of it. Until then the EndpointSlices do not change: nodes that do
// not know of the pod yet route to the activators, or, during a rollout, to the old pods.
func (o Observation) NeedsActivators() (needed bool, recheck time.Duration) {
	switch {
	case len(o.Ready) == 0:
		return true, 0
	case o.ScalingDown() && o.ScaleDown.ScaledAt.IsZero():
		return true, 0 // NextStep returns when to check again
	case o.ScalingDown():
		return true, o.untilSettled(o.ScaleDown.ScaledAt)
	case !o.Routed:
		return false, 0
	}
	left := o.untilSettled(slices.MinFunc(o.Ready, time.Time.Compare))
	return left > 0, max(left, 0)
}

// A Step is the next action for a function with ready pods.
type Step string

// The steps of a scale-down.
const (
	// Wait means that no action is due yet.
	Wait Step = "wait"
	// Route means to list all activators in the EndpointSlices, so that they receive requests when
	// the pods are gone.
	Route Step = "route"
	// Cancel means to cancel the scale-down, because a request has arrived after Route.
	Cancel Step = "cancel"
	// ScaleToZero means to scale the Deployment to 0: every node routes to the activators, and no
	// request has arrived.
	ScaleToZero Step = "scale to zero"
)

// NextStep returns the next step for a function that has not been scaled to 0, and for Wait the
// delay until the next check. idle is the time for which its pods have served no request.
func NextStep(o Observation, sleepAfter, idle time.Duration) (Step, time.Duration) {
	routed := o.ScaleDown.RoutedAt
	switch {
	case !o.ScalingDown() && idle < sleepAfter:
		return Wait, sleepAfter - idle
	case !o.ScalingDown():
		return Route, 0
	case idle < o.Now.Sub(routed):
		return Cancel, 0
	case o.untilSettled(routed) > 0:
		return Wait, o.untilSettled(routed)
	}
	return ScaleToZero, 0
}
