package desired

import (
	"math"
	"strings"
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

	// longestDrain is the most that a pod waits for, and what it waits for where the
	// time is kept in a ConfigMap, say: a function that ends earlier is not kept.
	longestDrain = time.Hour
)

// drainEnv is what the runtime is told beside what the user sets. Variables in
// env go before those of envFrom, which could set the same ones to what the pod
// does not wait for: with envFrom all of them are told.
func drainEnv(fn *v1beta1.Function) []*envVar {
	var all []*envVar
	unknown := len(fn.Spec.EnvFrom) > 0
	if drain := drainTimeout(fn); (unknown || drain != defaultDrainTimeout) && !sets(fn, drainTimeoutName) {
		all = append(all, env(drainTimeoutName, drain.String()))
	}
	if unknown && !sets(fn, drainDelayName) {
		all = append(all, env(drainDelayName, defaultDrainDelay.String()))
	}
	return all
}

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

// ownDuration is what the user has set a variable of the runtime to, or may have
// set it to; other where the variable is not there, or nothing that the runtime
// takes.
func ownDuration(fn *v1beta1.Function, name string, other time.Duration) time.Duration {
	for _, v := range fn.Spec.Env {
		if v.Name != name {
			continue
		}
		if v.ValueFrom != nil || strings.Contains(v.Value, "$(") {
			return longestDrain
		}
		if own, err := time.ParseDuration(v.Value); err == nil && own >= 0 {
			return min(own, longestDrain)
		}
	}
	return other
}
