package desired

import (
	"math"
	"time"

	"goless.io/operator/api/v1beta1"
)

// How a function ends. The first two are the runtime's defaults: it lets
// endpoints settle, and then waits for requests to end.
const (
	defaultDrainDelay   = 5 * time.Second
	defaultDrainTimeout = 20 * time.Second

	drainDelayName   = "DRAIN_DELAY"
	drainTimeoutName = "DRAIN_TIMEOUT"

	// drainSlack is what is left to the program to say goodbye before the kubelet
	// kills it.
	drainSlack = 5 * time.Second
)

// drainTimeout gives a request that has begun the time that it was promised.
// One that may take any time gets the runtime's default.
func drainTimeout(fn *v1beta1.Function) time.Duration {
	return ownDuration(fn, drainTimeoutName, max(defaultDrainTimeout, fn.RequestTimeout()))
}

// gracePeriodSeconds is how long the kubelet waits between SIGTERM and SIGKILL.
func gracePeriodSeconds(fn *v1beta1.Function) int64 {
	grace := ownDuration(fn, drainDelayName, defaultDrainDelay) + drainTimeout(fn) + drainSlack
	return int64(math.Ceil(grace.Seconds()))
}

// ownDuration is what the user has set a variable of the runtime to; other where
// the variable is not there, or nothing that a pod can wait for.
func ownDuration(fn *v1beta1.Function, name string, other time.Duration) time.Duration {
	for _, v := range fn.Spec.Env {
		if v.Name != name {
			continue
		}
		if own, err := time.ParseDuration(v.Value); err == nil && own >= 0 && own <= time.Hour {
			return own
		}
	}
	return other
}
