package desired

import (
	"math"
	"slices"
	"time"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// The termination of a function: it serves until all nodes know that its endpoint was removed, and then
// waits for running requests.
const (
	// defaultDrainTimeout is the default of the runtime.
	defaultDrainTimeout = 20 * time.Second

	drainDelayName = "DRAIN_DELAY"

	// DrainTimeoutName is the variable that corresponds to spec.drainSeconds.
	DrainTimeoutName = "DRAIN_TIMEOUT"

	// drainSlack is the time that the program has to exit before the kubelet kills it.
	drainSlack = 5 * time.Second

	// longestDrain is the time that a pod waits if the author sets the drain time in a variable. A
	// function that exits earlier does not wait.
	longestDrain = time.Hour
)

// drainEnv returns the drain variables that the author does not set in env. It sets both even to
// their defaults, because envFrom could otherwise set them to more than the grace period.
func drainEnv(fn *v1beta1.Function, s settings.Settings) []*envVar {
	all := []*envVar{env(DrainTimeoutName, drainTimeout(fn).String()), env(drainDelayName, s.EndpointsSettle().String())}
	return slices.DeleteFunc(all, func(v *envVar) bool { return HasVariable(fn, *v.Name) })
}

// drainTimeout returns the time that running requests have to finish. The default is the request
// timeout, but at least the default of the runtime.
func drainTimeout(fn *v1beta1.Function) time.Duration {
	if seconds := fn.Spec.DrainSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return max(defaultDrainTimeout, fn.RequestTimeout())
}

// gracePeriodSeconds returns the time that the kubelet waits between SIGTERM and SIGKILL.
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
