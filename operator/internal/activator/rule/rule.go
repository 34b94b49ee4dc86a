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
	// Named tells that the slice names activators.
	Named bool
	// Falling is zero unless the function is falling asleep.
	Falling ScaleDown
}

// ScaleDown is how far a function has fallen asleep.
type ScaleDown struct {
	Named  time.Time // since when its slice names all activators
	Scaled time.Time // when its pods were ended; zero before that
}

// Zero tells that the function is not falling asleep.
func (f ScaleDown) Zero() bool { return f == ScaleDown{} }

// Over tells that the fall has come to its end: the pods have gone, or they ought to have.
func (s Observation) Over() bool {
	f := s.Falling
	return f.Zero() || len(s.Ready) == 0 || !f.Scaled.IsZero() && s.Now.Sub(f.Scaled) >= s.Settle
}

// Activators tells whether the slice shall name the activators: while no pod is ready, and
// while the function falls asleep. A pod that is ready takes all requests once every node
// knows of it. Until then the slice stays as it is, because nodes that do not know have
// nobody else, and because in a rollout they know of the former pods.
func (s Observation) Activators() bool {
	switch {
	case len(s.Ready) == 0, !s.Over():
		return true
	case s.Now.Sub(earliest(s.Ready)) >= s.Settle:
		return false
	}
	return s.Named
}

// Again is after how long the answer of Activators may be another one although nothing else
// has changed. It is 0 if that is never.
func (s Observation) Again() time.Duration {
	switch f := s.Falling; {
	case len(s.Ready) == 0:
		return 0
	case !s.Over() && !f.Scaled.IsZero():
		return f.Scaled.Add(s.Settle).Sub(s.Now)
	case s.Over() && s.Activators():
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
	// Name means to have the slice name all activators, and then to wait until all
	// nodes know.
	Name Step = "name"
	// Stay means that a request has come meanwhile: the function stays awake.
	Stay Step = "stay"
	// End means to end all pods.
	End Step = "end"
)

// Next returns what to do with a function that has served nothing for some time, and after how
// long to ask again if it is to wait.
func Next(s Observation, sleepAfter, idle time.Duration) (Step, time.Duration) {
	f := s.Falling
	switch {
	case !f.Scaled.IsZero():
		return Wait, f.Scaled.Add(s.Settle).Sub(s.Now)
	case f.Zero() && idle < sleepAfter:
		return Wait, sleepAfter - idle
	case f.Zero():
		return Name, 0
	case idle < s.Now.Sub(f.Named):
		return Stay, 0
	case s.Now.Sub(f.Named) < s.Settle:
		return Wait, f.Named.Add(s.Settle).Sub(s.Now)
	}
	return End, 0
}
