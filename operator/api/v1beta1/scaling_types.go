package v1beta1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FunctionLabel holds the name of the Function on everything that belongs to it.
const FunctionLabel = "goless.io/function"

// SleepAfterAnnotation is on the Service of a function that may sleep, and on no other. Its
// value is the time without requests after which the function sleeps, as Go writes a duration:
// 5m0s.
const SleepAfterAnnotation = "goless.io/sleep-after"

// TimeoutAnnotation is on the Service of a function that may sleep and whose requests may not take any
// time. Its value is the timeout, as Go writes a duration: 1m0s.
const TimeoutAnnotation = "goless.io/timeout"

// Annotations of the EndpointSlices of the activator, by which the operator learns what only the
// activator sees.
const (
	// WakeFailedAnnotation is why the last wake of the function failed. It is set until a pod of
	// the function is ready.
	WakeFailedAnnotation = "goless.io/wake-failed"

	// StaysAwakeAnnotation is why the activator cannot learn for how long the pods of the
	// function have been idle. It is set while that is so.
	StaysAwakeAnnotation = "goless.io/stays-awake"
)

const (
	// DefaultSleepAfter is the time after which a function sleeps that may sleep and does not
	// say when.
	DefaultSleepAfter = 5 * time.Minute

	// MinSleepAfter is the least that spec.scaling.sleepAfter may be.
	MinSleepAfter = 15 * time.Second

	// MaxSleepAfter is the most that it may be.
	MaxSleepAfter = 24 * time.Hour
)

// Scaling says between which bounds the number of replicas follows the load.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || self.max >= (has(self.min) ? self.min : 1)",message="max must not be less than min, which is 1 when left out"
type Scaling struct {
	// min is the least number of replicas; 1 by default. With 0 the function
	// sleeps while nobody calls it: it has no pods then, and the next request waits
	// until there is one. A NetworkPolicy that says who may call the function does not
	// hold for requests that come while it sleeps, because those come from pods of
	// goless-activator: keep min at 1 there. As long as the policy does not let these
	// pods in, at port 9090, the function stays awake, and the condition Degraded
	// has the reason CannotSleep.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Min *int32 `json:"min,omitempty"`

	// max is the largest number of replicas, at least 1; by default it is min, or 1
	// where min is 0. Where it is larger than that, a HorizontalPodAutoscaler chooses
	// the number by the use of cpu; the cluster needs a metrics server for it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Max *int32 `json:"max,omitempty"`

	// cpu is how much each replica should use on average, in cores, such as 500m for
	// half a core: when they use more there will be more replicas, up to max. It does not
	// depend on what resources requests. By default it is 500m, or half of
	// resources.limits.cpu if that is less: a replica that is half busy can take more
	// requests for the half a minute that the next one takes to help.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$') && string(self).matches('[1-9]')",message="cpu must be a number of cores that is more than 0, with an optional unit, such as 2 or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// sleepAfter is the time without any request after which a function with min 0
	// sleeps, such as 30s or 1h, from 15s to 24h; 5m by default. Health checks and reads
	// of metrics are no requests.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$')",message="sleepAfter must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$') || duration(self) >= duration('15s') && duration(self) <= duration('24h')",message="sleepAfter must be from 15s to 24h"
	SleepAfter *metav1.Duration `json:"sleepAfter,omitempty"`
}

// Stopped tells whether somebody has stopped the function.
func (f *Function) Stopped() bool { return f.Spec.Replicas != nil && *f.Spec.Replicas == 0 }

// Bounds returns the least and the largest number of replicas of a function that is not
// stopped. A least number of 0 means that the function may sleep.
func (f *Function) Bounds() (least, most int32) {
	s := f.Spec.Scaling
	if s == nil {
		n := f.WantedReplicas()
		return n, n
	}
	least = 1
	if s.Min != nil {
		least = *s.Min
	}
	most = max(least, 1)
	if s.Max != nil {
		most = *s.Max
	}
	return least, most
}

// FixedReplicas returns how many copies of the function shall run. It returns false where
// that depends on the load.
func (f *Function) FixedReplicas() (int32, bool) {
	least, most := f.Bounds()
	switch {
	case f.Stopped():
		return 0, true
	case least == most:
		return least, true
	}
	return 0, false
}

// MaySleep tells whether the function sleeps while nobody calls it.
func (f *Function) MaySleep() bool {
	least, _ := f.Bounds()
	return least == 0 && !f.Stopped()
}

// SleepAfter is the time without requests after which the function sleeps, if it may.
func (f *Function) SleepAfter() time.Duration {
	if f.Spec.Scaling == nil || f.Spec.Scaling.SleepAfter == nil {
		return DefaultSleepAfter
	}
	return f.Spec.Scaling.SleepAfter.Duration
}
