// Package rule decides, from what was observed of a function, whether the activators take its
// requests, and what the next step of a function is that falls asleep. It reads nothing from a
// cluster and writes nothing.
//
//	rule.go   who takes the requests, and the steps towards sleep
//	slice.go  what the EndpointSlices look like that send requests to activators
//	ports.go  which port the activators listen on for a function
package rule

import (
	"slices"
	"time"
)

// An Observation is what was seen of a function.
type Observation struct {
	Now time.Time
	// Settle is how long it takes, at most, until a change of the endpoints of a Service has
	// reached all nodes.
	Settle time.Duration
	// Ready has, for each pod that is ready, since when this process knows that: the clocks of nodes may
	// differ from its own. Pods that are being deleted are not ready.
	Ready []time.Time
	// Routed tells that the slices send requests to activators.
	Routed bool
	// ScaleDown is zero unless the function is falling asleep.
	ScaleDown ScaleDown
}

// ScaleDown is how far a function has fallen asleep.
type ScaleDown struct {
	Routed time.Time // when its slices began to send requests to all activators
	Scaled time.Time // when its Deployment was scaled to 0; zero before that
}

// settlesIn returns how long it takes until all nodes know of a change that was made at a time. It
// is not positive once they do.
func (o Observation) settlesIn(changed time.Time) time.Duration {
	return changed.Add(o.Settle).Sub(o.Now)
}

// FallingAsleep tells whether the function has begun to fall asleep, and has ready pods that are
// about to end. If the pods stay long after the Deployment was scaled to 0, somebody else has
// scaled it up again, and the function is awake.
func (o Observation) FallingAsleep() bool {
	begun := !o.ScaleDown.Routed.IsZero()
	scaled := !o.ScaleDown.Scaled.IsZero()
	return begun && len(o.Ready) > 0 && (!scaled || o.settlesIn(o.ScaleDown.Scaled) > 0)
}

// NeedsActivators tells whether the slices shall send requests to the activators, and after how
// long the answer may be another one although nothing happens; 0 means never.
//
// The activators are needed while no pod is ready, and while the function falls asleep. A pod that
// is ready takes all requests once every node knows of it. Until then the slices stay as they are:
// nodes that do not know of the pod have nobody but the activators, and in a rollout they have the
// former pods.
func (o Observation) NeedsActivators() (needed bool, recheck time.Duration) {
	switch {
	case len(o.Ready) == 0:
		return true, 0
	case o.FallingAsleep() && o.ScaleDown.Scaled.IsZero():
		return true, 0 // Next tells when to look again
	case o.FallingAsleep():
		return true, o.settlesIn(o.ScaleDown.Scaled)
	case !o.Routed:
		return false, 0
	}
	left := o.settlesIn(slices.MinFunc(o.Ready, time.Time.Compare))
	return left > 0, max(left, 0)
}

// A Step is what to do next with a function whose pods are ready.
type Step string

// The steps.
const (
	// Wait means that it is too early for anything else.
	Wait Step = "wait"
	// Route means to let the slices send requests to all activators, so that somebody takes them
	// when the pods have gone.
	Route Step = "route"
	// Cancel means that the function stays awake, because a request has come after Route.
	Cancel Step = "cancel"
	// ScaleToZero means to end all pods, because every node has known of the activators for some
	// time, and no request has come.
	ScaleToZero Step = "scale to zero"
)

// Next returns the next step of a function that has not been scaled to 0, and after how long to ask
// again if that is Wait. idle is for how long its pods have served no request.
func Next(o Observation, sleepAfter, idle time.Duration) (Step, time.Duration) {
	routed := o.ScaleDown.Routed
	switch {
	case !o.FallingAsleep() && idle < sleepAfter:
		return Wait, sleepAfter - idle
	case !o.FallingAsleep():
		return Route, 0
	case idle < o.Now.Sub(routed):
		return Cancel, 0
	case o.settlesIn(routed) > 0:
		return Wait, o.settlesIn(routed)
	}
	return ScaleToZero, 0
}
