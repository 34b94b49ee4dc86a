package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/workload"
)

// asleep is the message of a function that sleeps. It stays while the function wakes.
const asleep = "the function sleeps: a request wakes it"

// sleepingOrWaking tells whether a function without ready replicas would serve the next request
// all the same: it sleeps, or is being woken. One that cannot wake would not, and neither would one
// whose Service is gone, by which requests reach the activator.
func (v *view) sleepingOrWaking() bool {
	d := v.seen.Outcome.Deployment
	switch {
	case !v.fn.MaySleep(), d == nil, v.seen.Outcome.Service == nil, d.DeletionTimestamp != nil, d.Status.ReadyReplicas > 0, !workload.Served(v.fn, d):
		return false
	case workload.Replicas(d) == 0:
		return true
	}
	before := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionAvailable)
	return before.Reason == v1beta1.ReasonAsleep && v.rolledOut() && !slices.ContainsFunc(v.seen.Pods, func(pod corev1.Pod) bool {
		return workload.CannotStart(&pod)
	})
}

// sleepingOrWakingLatest tells whether the function sleeps or wakes, and is then of the latest
// revision, which has compiled.
func (v *view) sleepingOrWakingLatest() bool {
	return v.sleepingOrWaking() && v.outcomeInStatus().reason == v1beta1.ReasonBuilt && v.fn.Status.LatestRevision == v.revision
}

// lacksReplicas tells whether a ready Function waits for the number of replicas that it should have.
// One that falls asleep or wakes does not, as it does so all day and nobody waits for it, unless
// something keeps its pod from serving.
func (v *view) lacksReplicas() bool {
	if v.fn.MaySleep() && v.want() == 0 {
		return false // its last pods are about to end
	}
	problem, _ := v.podProblem()
	kept := problem != nil || slices.ContainsFunc(v.latestPods(), func(pod corev1.Pod) bool { return v.waitsForFiles(&pod) != "" })
	return !v.hasWantedReplicas() && (kept || !v.sleepingOrWaking())
}

// want is how many replicas there should be now.
func (v *view) want() int32 {
	n, fixed := v.fn.FixedReplicas()
	if !fixed && v.seen.Outcome.Deployment != nil {
		return workload.Replicas(v.seen.Outcome.Deployment)
	}
	return n
}
