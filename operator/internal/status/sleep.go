package status

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// asleep is the message of a function that sleeps. It stays while the function wakes.
const asleep = "the function sleeps: a request wakes it"

// Served tells whether the status of a Function says that the revision of its Deployment was
// the last one to serve, be it that it has fallen asleep since. Without pods nothing else
// tells.
func Served(fn *v1beta1.Function, d *appsv1.Deployment) bool {
	return meta.IsStatusConditionTrue(fn.Status.Conditions, v1beta1.ConditionAvailable) && fn.Status.ReadyRevision == desired.RevisionOf(&d.Spec.Template)
}

// sleepingOrWaking tells whether a function without ready replicas would serve the next request
// all the same: it sleeps, or is being woken. One that cannot wake would not, and neither would one
// whose Service is gone, by which requests reach the activator.
func (v *view) sleepingOrWaking() bool {
	d := v.seen.Deployment
	switch {
	case !v.fn.MaySleep(), d == nil, v.seen.Service == nil, d.DeletionTimestamp != nil, d.Status.ReadyReplicas > 0, !Served(v.fn, d):
		return false
	case wanted(d) == 0:
		return true
	}
	before := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionAvailable)
	return before.Reason == v1beta1.ReasonAsleep && v.rolledOut() && !slices.ContainsFunc(v.seen.Pods, func(pod corev1.Pod) bool {
		return CannotStart(&pod)
	})
}

// sleepingOrWakingLatest tells whether the function sleeps or wakes, and is then of the latest
// revision, which has compiled.
func (v *view) sleepingOrWakingLatest() bool {
	return v.sleepingOrWaking() && v.outcomeInStatus().reason == v1beta1.ReasonBuilt && v.fn.Status.LatestRevision == v.revision
}

// CannotStart tells whether something keeps a pod from becoming ready that does not pass as
// the pod starts: no node has room for it, a container has failed, or waits for what is not
// there.
func CannotStart(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed {
		return false // it goes, and another one starts
	}
	containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return unscheduled(pod) != "" || slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
		ended, waits := c.State.Terminated, c.State.Waiting
		return c.LastTerminationState.Terminated != nil || waits != nil && waits.Message != "" ||
			ended != nil && (ended.ExitCode != 0 || c.Name == desired.FunctionContainer)
	})
}

// want is how many replicas there should be now.
func (v *view) want() int32 {
	n, fixed := v.fn.FixedReplicas()
	if !fixed && v.seen.Deployment != nil {
		return wanted(v.seen.Deployment)
	}
	return n
}
