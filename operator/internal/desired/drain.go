package desired

import (
	"math"
	"time"

	"goless.io/operator/api/v1beta1"
)

// How a function ends. The first two are the runtime's defaults: it goes on serving
// until endpoints have settled, and then waits for the requests that have begun.
const (
	defaultDrainDelay   = 5 * time.Second
	defaultDrainTimeout = 20 * time.Second

	drainDelayName = "DRAIN_DELAY"

	// DrainTimeoutName is the variable of spec.drainSeconds.
	DrainTimeoutName = "DRAIN_TIMEOUT"

	// drainSlack is what is left to the program to end before the kubelet kills it.
	drainSlack = 5 * time.Second

	// longestDrain is how long a pod waits for a time that the author sets as a variable.
	// A function that ends earlier is not kept.
	longestDrain = time.Hour
)

// drainEnv is what the runtime is told beside what the author sets. Variables in env go
// before those of envFrom, which could set the same ones to what the pod does not wait
// for: with envFrom all of them are told.
func drainEnv(fn *v1beta1.Function) []*envVar {
	var all []*envVar
	unknown := len(fn.Spec.EnvFrom) > 0
	if drain := drainTimeout(fn); (unknown || drain != defaultDrainTimeout) && !HasVariable(fn, DrainTimeoutName) {
		all = append(all, env(DrainTimeoutName, drain.String()))
	}
	if unknown && !HasVariable(fn, drainDelayName) {
		all = append(all, env(drainDelayName, defaultDrainDelay.String()))
	}
	return all
}

// drainTimeout is how long requests that have begun may go on. By default that is as long
// as any request may take; where a request may take any time, it is the runtime's default.
func drainTimeout(fn *v1beta1.Function) time.Duration {
	if seconds := fn.Spec.DrainSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return max(defaultDrainTimeout, fn.RequestTimeout())
}

// gracePeriodSeconds is how long the kubelet waits between SIGTERM and SIGKILL.
func gracePeriodSeconds(fn *v1beta1.Function) int64 {
	delay, drain := defaultDrainDelay, drainTimeout(fn)
	if HasVariable(fn, drainDelayName) {
		delay = longestDrain
	}
	if HasVariable(fn, DrainTimeoutName) {
		drain = longestDrain
	}
	return int64(math.Ceil((delay + drain + drainSlack).Seconds()))
}
