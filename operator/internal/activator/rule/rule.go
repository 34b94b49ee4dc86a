// Package rule decides, from what was seen of a function, whether its requests shall go to
// the activators, and what becomes of a function that falls asleep. It is pure: it reads
// nothing and does nothing.
package rule

import "time"

// Settle is an Observation's Settle in a cluster: kube-proxy writes its rules every 10 seconds
// at the latest.
const Settle = 15 * time.Second

// An Observation is what was seen of a function.
type Observation struct {
	Now time.Time
	// Settle is for how long a change of the endpoints of a Service may take until it has come
	// to all nodes.
	Settle time.Duration
	// Ready is since when each pod is ready that is; pods that are being deleted are not.
	Ready []time.Time
	// Routed tells that the slice sends requests to activators.
	Routed bool
	// ScaleDown is zero unless the function is falling asleep.
	ScaleDown ScaleDown
}

// ScaleDown is how far a function has fallen asleep.
type ScaleDown struct {
	Routed time.Time // since when its slice sends requests to all activators
	Scaled time.Time // when its pods were ended; zero before that
}

// Zero tells that the function is not falling asleep.
func (f ScaleDown) Zero() bool { return f == ScaleDown{} }

// ScaleDownOver tells that the function is not falling asleep any more: the pods have gone, or they
// ought to have.
func (s Observation) ScaleDownOver() bool {
	f := s.ScaleDown
	return f.Zero() || len(s.Ready) == 0 || !f.Scaled.IsZero() && s.Now.Sub(f.Scaled) >= s.Settle
}

// NeedsActivators tells whether the slice shall send requests to the activators: while no pod is
// ready, and while the function falls asleep. A pod that is ready takes all requests once every node
// knows of it. Until then the slice stays as it is, because nodes that do not know have
// nobody else, and because in a rollout they know of the former pods.
func (s Observation) NeedsActivators() bool {
	switch {
	case len(s.Ready) == 0, !s.ScaleDownOver():
		return true
	case s.Now.Sub(earliest(s.Ready)) >= s.Settle:
		return false
	}
	return s.Routed
}

// RecheckAfter is after how long the answer of NeedsActivators may be another one although nothing
// else has changed. It is 0 if that is never.
func (s Observation) RecheckAfter() time.Duration {
	switch f := s.ScaleDown; {
	case len(s.Ready) == 0:
		return 0
	case !s.ScaleDownOver() && !f.Scaled.IsZero():
		return f.Scaled.Add(s.Settle).Sub(s.Now)
	case s.ScaleDownOver() && s.NeedsActivators():
		return earliest(s.Ready).Add(s.Settle).Sub(s.Now)
	}
	return 0
}

func earliest(times []time.Time) time.Time {
	first := times[0]
	for _, t := range times[1:] {
		if t.Before(first) {
			first = t
		}
	}
	return first
}

// A Step is what to do next with a function whose pods are ready.
type Step string

// The steps.
const (
	// Wait means that it is too early for anything else.
	Wait Step = "wait"
	// Route means to have the slice send requests to all activators, and then to wait until
	// all nodes know.
	Route Step = "route"
	// Stay means that a request has come meanwhile: the function stays awake.
	Stay Step = "stay"
	// Scale means to scale the function to 0, which ends all pods.
	Scale Step = "scale"
)

// Next returns what to do with a function that has served nothing for some time and has not been
// scaled to 0, and after how long to ask again if it is to wait.
func Next(s Observation, sleepAfter, idle time.Duration) (Step, time.Duration) {
	f := s.ScaleDown
	switch {
	case f.Zero() && idle < sleepAfter:
		return Wait, sleepAfter - idle
	case f.Zero():
		return Route, 0
	case idle < s.Now.Sub(f.Routed):
		return Stay, 0
	case s.Now.Sub(f.Routed) < s.Settle:
		return Wait, f.Routed.Add(s.Settle).Sub(s.Now)
	}
	return Scale, 0
}
