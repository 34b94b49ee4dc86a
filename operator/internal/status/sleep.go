package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/validation"
	"goless.io/operator/internal/workload"
)

// asleep is the message of a function that sleeps. It stays while the function wakes.
const asleep = "the function sleeps: a request wakes it"

// sleepingOrWaking reports whether a function without ready replicas would serve the next request
// all the same: it sleeps, or is being woken, and an activator takes its requests.
func (v *view) sleepingOrWaking() bool { return v.asleep() && v.noActivator() == "" }

// asleep reports whether a function sleeps, or is being woken. It does not after a wake has failed,
// while its pods cannot start, and without the Service by which requests reach the activator.
func (v *view) asleep() bool {
	d := v.seen.Outcome.Deployment
	switch {
	case !v.fn.MaySleep(), d == nil, v.seen.Outcome.Service == nil, d.DeletionTimestamp != nil, d.Status.ReadyReplicas > 0,
		!workload.Served(v.fn, d), v.wakeFailed() != "":
		return false
	case workload.Replicas(d) == 0:
		return true
	}
	before := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionAvailable).Reason
	return (before == v1beta1.ReasonAsleep || before == v1beta1.ReasonNoActivator) && v.rolledOut() && v.podsNotCreated() == "" &&
		!slices.ContainsFunc(v.seen.Pods, func(pod corev1.Pod) bool { return workload.CannotStart(&pod) })
}

// asleepLatest reports whether the function sleeps or wakes, and is then of the latest revision, which
// has compiled.
func (v *view) asleepLatest() bool {
	return v.asleep() && v.outcomeInStatus().reason == v1beta1.ReasonBuilt && v.fn.Status.LatestRevision == v.revision
}

// noActivator returns why no request reaches an activator that could wake the function; empty where
// one does.
func (v *view) noActivator() string {
	switch {
	case !v.seen.Activator.Ready:
		return "the function sleeps, and no replica of the activator is ready to wake it: see Deployment goless-activator"
	case !v.seen.Activator.Routed:
		return "the function sleeps, and no EndpointSlice sends its requests to the activator: see the log of Deployment goless-activator"
	}
	return ""
}

// revisionByActivator returns the revision that answers requests although no pod is ready; empty if none
// does. While no pod of a function that may sleep is ready, the activator takes its requests, and it
// passes them to a pod whose /readyz answers 200, whatever the other containers of the pod do.
func (v *view) revisionByActivator() string {
	d := v.seen.Outcome.Deployment
	if !v.fn.MaySleep() || d == nil || workload.Replicas(d) == 0 || d.Status.ReadyReplicas > 0 || v.seen.Outcome.Service == nil || v.noActivator() != "" {
		return ""
	}
	for _, pod := range v.seen.Pods {
		serves := slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == desired.FunctionContainer && c.Ready
		})
		if serves && !workload.Ready(&pod) && !workload.Replaced(&pod) { // of one that is ready, the Deployment tells next
			return desired.RevisionOf(&pod)
		}
	}
	return ""
}

// wakeFailed returns why the function could not be woken, with what keeps its pods from serving; empty
// where the last wake has not failed, or a replica answers requests.
func (v *view) wakeFailed() string {
	why, d := v.seen.Activator.WakeFailed, v.seen.Outcome.Deployment
	if why == "" || !v.fn.MaySleep() || d != nil && d.Status.ReadyReplicas > 0 || v.revisionByActivator() != "" {
		return ""
	}
	text := "the last request could not wake the function: " + oneLine(why)
	problem, waits := v.podProblem()
	if problem != nil {
		waits = problem.Message
	}
	if waits != "" {
		text += "; " + waits
	}
	return text
}

// lacks returns what the function does without for now: what could not be applied, and its sleep.
func (v *view) lacks() []validation.Problem {
	all := v.seen.Degraded
	if why := v.seen.Activator.StaysAwake; why != "" && v.fn.MaySleep() {
		all = append(slices.Clone(all), validation.Problem{
			Reason:  v1beta1.ReasonCannotSleep,
			Message: oneLine("the function stays awake, because the activator cannot learn for how long it has been idle: " + why),
		})
	}
	return all
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
	if (!fixed || v.seen.ReplicasLeftToOthers(v.fn)) && v.seen.Outcome.Deployment != nil {
		return workload.Replicas(v.seen.Outcome.Deployment)
	}
	return n
}
