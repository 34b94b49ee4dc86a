package v1beta1

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FunctionLabel is the label that contains the name of the Function on all objects that belong to
// it.
const FunctionLabel = "goless.io/function"

// TemplateLabel contains, on pods, ReplicaSets and ControllerRevisions, the hash of their pod
// template and, after a hyphen, the hash of the names of its fields.
const TemplateLabel = "goless.io/template"

// SleepAfterAnnotation is set on the Service of a function that may sleep. Its value is the idle
// time after which the function sleeps, as a Go duration such as 5m0s.
const SleepAfterAnnotation = "goless.io/sleep-after"

// TimeoutAnnotation is set on the Service of a function that may sleep or has windows, if it has a
// timeout. Its value is the timeout, as a Go duration such as 1m0s.
const TimeoutAnnotation = "goless.io/timeout"

// ScalingAnnotation is set on the Service of a function whose number of replicas follows its
// requests in flight. Its value is JSON, see package backend of the activator.
const ScalingAnnotation = "goless.io/scaling"

// Annotations on the EndpointSlices of the activator. The activator reports to the operator with them.
const (
	// WakeFailedAnnotation is the reason why the last wake-up of the function failed. It is removed
	// when a pod of the function is ready.
	WakeFailedAnnotation = "goless.io/wake-failed"

	// StaysAwakeAnnotation is the reason why the activator cannot determine how long the pods of
	// the function have been idle. It is removed when the activator can determine it again.
	StaysAwakeAnnotation = "goless.io/stays-awake"

	// CannotScaleAnnotation is the reason why the activator cannot scale a function by its requests in
	// flight: most pods do not respond, or the API server rejects the change. It is removed when the
	// activator can scale the function again.
	CannotScaleAnnotation = "goless.io/cannot-scale"
)

const (
	// DefaultSleepAfter is the default of spec.scaling.sleepAfter.
	DefaultSleepAfter = 5 * time.Minute

	// MinSleepAfter is the minimum of spec.scaling.sleepAfter.
	MinSleepAfter = 15 * time.Second

	// MaxSleepAfter is the maximum of spec.scaling.sleepAfter.
	MaxSleepAfter = 24 * time.Hour
)

// Scaling configures the bounds and the target of autoscaling.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || !has(self.requests)",message="set cpu or requests, not both"
// +kubebuilder:validation:XValidation:rule="!has(self.windows) || self.windows.all(w, w.min <= (has(self.max) ? self.max : has(self.min) && self.min > 1 ? self.min : 1))",message="windows[].min must not exceed scaling.max, which defaults to scaling.min or 1, whichever is greater"
// +kubebuilder:validation:XValidation:rule="!has(self.max) || self.max >= (has(self.min) ? self.min : 1)",message="max must not be less than min, which defaults to 1"
type Scaling struct {
	// min is the minimum number of replicas. Default: 1. Minimum: 0, which lets the function sleep:
	// after sleepAfter without a request it is scaled to zero, and the next request waits until a
	// pod is ready.
	//
	// Requests to a sleeping function come from the pods of goless-activator, so a NetworkPolicy
	// cannot restrict which clients call it. Keep min at 1 or more if a NetworkPolicy restricts
	// clients. If a NetworkPolicy does not allow the activator to connect to port 9090, the
	// function stays awake and Degraded is True with reason CannotSleep.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Min *int32 `json:"min,omitempty"`

	// max is the maximum number of replicas. Default: min, or 1 if min is 0. Minimum: 1; it must
	// not be less than min. If it is greater than both min and 1, the number of replicas depends on
	// the load: on the requests in flight if the field requests is set, and otherwise on the cpu
	// usage. For the cpu usage, the operator creates a HorizontalPodAutoscaler, which requires a
	// metrics server in the cluster.
	//
	// The cluster has a maximum, by default 100 (see the setting "function.maxReplicas"). Admission
	// rejects a larger number. If a stored spec exceeds the maximum, for example because the
	// maximum was lowered later, the operator uses the maximum; the function serves, but Ready is
	// False with reason InvalidSpec.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Max *int32 `json:"max,omitempty"`

	// cpu is the target for the average cpu usage of a replica, in cores, such as 500m for half a
	// core. Above it, replicas are added, up to max. Default: 500m, or half of resources.limits.cpu
	// if that is less. Until a new replica is ready, which takes about 30 seconds, the replicas can
	// use more cpu than the target, up to their limit. The target must be greater than 0 and less
	// than resources.limits.cpu. It does not depend on resources.requests.
	// +optional
	// +kubebuilder:validation:XValidation:rule="string(self).matches('^[0-9]{1,19}([.][0-9]{1,9})?([numkMGTPE]|[KMGTPE]i)?$') && string(self).matches('[1-9]')",message="cpu must be more than 0 cores, with an optional unit, such as 2 or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`

	// requests is the target for the average number of requests that a replica serves at the same
	// time. goless-activator polls the pods every 2 seconds (every 4 seconds while there are no
	// requests) and sets the number of replicas. If the load requires more replicas, they are added
	// immediately. Within any 15 seconds, their number at most doubles, or grows by 4 if that is
	// more; this limit does not apply while the function wakes. If the load requires fewer
	// replicas, they are removed after 5 minutes. Requests that were rejected because of
	// concurrency are part of the load too. A metrics server is not required.
	//
	// Default: none, which means that the number of replicas depends on the cpu usage. Range: 1 to
	// 10000, and at most concurrency if that is set. It cannot be combined with cpu. A change does
	// not restart pods.
	//
	// If a NetworkPolicy does not allow the activator to connect to port 9090, the number of
	// replicas does not change, and Degraded is True with reason CannotScale.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Requests *int32 `json:"requests,omitempty"`

	// sleepAfter is the time without requests after which a function with min 0 is scaled to zero,
	// such as 30s or 1h. Default: 5m. Range: 15s to 24h. Health checks and metrics scrapes do not
	// count as requests.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$')",message="sleepAfter must be a time such as 30s or 1m30s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(([0-9]{1,9}([.][0-9]{1,9})?(ns|us|ms|s)|[0-9]{1,5}([.][0-9]{1,9})?[mh])+)$') || duration(self) >= duration('15s') && duration(self) <= duration('24h')",message="sleepAfter must be from 15s to 24h"
	SleepAfter *metav1.Duration `json:"sleepAfter,omitempty"`

	// windows are times in which the function has a higher minimum of replicas, such as working
	// hours in which it must not sleep. Outside of all windows, min applies. Where windows overlap,
	// the highest minimum applies. A change does not restart pods. Default: none. Maximum: 16.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []Window `json:"windows,omitempty"`
}

// Window is a recurring period with its own minimum number of replicas.
type Window struct {
	// schedule is when the window begins, in cron format: minute, hour, day of the month, month and
	// day of the week, or a word such as @daily. It must not contain a time zone; use timeZone.
	// Maximum: 256 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ=') && !self.startsWith('@every')",message="schedule must have five fields, or be a word such as @daily; set timeZone for a time zone"
	Schedule string `json:"schedule"`

	// timeZone is the name of the time zone of the schedule, such as Europe/Berlin. Default:
	// Etc/UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone,omitempty"`

	// duration is the length of the window, such as 10h. Range: 1m to 168h.
	// +required
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}[smh])+$')",message="duration must be a time such as 30m or 1h30m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}[smh])+$') || duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="duration must be from 1m to 168h"
	Duration metav1.Duration `json:"duration"`

	// min is the minimum number of replicas in the window. Minimum: 1. It must not be more than max.
	// +required
	// +kubebuilder:validation:Minimum=1
	Min int32 `json:"min"`
}

// Stopped reports whether spec.replicas is 0.
func (f *Function) Stopped() bool { return f.Spec.Replicas != nil && *f.Spec.Replicas == 0 }

// Bounds returns the minimum and maximum number of replicas of a function that is not stopped. A
// minimum of 0 means that the function may sleep. It and the methods below do not consider
// spec.scaling.windows: package windows sets the minimum that applies now.
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

// FixedReplicas returns the number of replicas. It returns false if that number depends on the
// load.
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

// MaySleep reports whether the function is scaled to zero when it is idle.
func (f *Function) MaySleep() bool {
	least, _ := f.Bounds()
	return least == 0 && !f.Stopped()
}

// ScalesOnRequests reports whether the number of replicas follows the requests in flight of the
// function.
func (f *Function) ScalesOnRequests() bool {
	least, most := f.Bounds()
	return most > max(least, 1) && !f.Stopped() && f.Spec.Scaling.Requests != nil
}

// SleepAfter returns the time without requests after which a function that may sleep is scaled to
// zero.
func (f *Function) SleepAfter() time.Duration {
	if f.Spec.Scaling == nil || f.Spec.Scaling.SleepAfter == nil {
		return DefaultSleepAfter
	}
	return f.Spec.Scaling.SleepAfter.Duration
}
