package desired

import (
	"math"
	"slices"
	"time"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// How a function ends: it serves until all nodes know that its endpoint is gone, and then waits for the
// requests that have begun.
const (
	// defaultDrainTimeout is the runtime's default.
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

// drainEnv tells the runtime how to end, where the author does not in env. It sets both variables
// even to the defaults, because envFrom could set them to more than the pod waits for.
func drainEnv(fn *v1beta1.Function, s settings.Settings) []*envVar {
	all := []*envVar{env(DrainTimeoutName, drainTimeout(fn).String()), env(drainDelayName, s.EndpointsSettle().String())}
	return slices.DeleteFunc(all, func(v *envVar) bool { return HasVariable(fn, *v.Name) })
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
func gracePeriodSeconds(fn *v1beta1.Function, s settings.Settings) int64 {
	delay, drain := s.EndpointsSettle(), drainTimeout(fn)
	if HasVariable(fn, drainDelayName) {
		delay = longestDrain
	}
	if HasVariable(fn, DrainTimeoutName) {
		drain = longestDrain
	}
	return int64(math.Ceil((delay + drain + drainSlack).Seconds()))
}
