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

// asleep is the message of a sleeping function. It is kept while the function wakes.
const asleep = "the function is asleep; a request wakes it"

// sleepingOrWaking reports whether a function without ready replicas would serve the next request:
// it sleeps or is being woken, and an activator receives its requests.
func (v *view) sleepingOrWaking() bool { return v.asleep() && v.noActivator() == "" }

// asleep reports whether a function sleeps or is being woken. It is false after a failed wake-up,
// while its pods cannot start, and without the Service through which requests reach the activator.
func (v *view) asleep() bool {
	d := v.seen.Outcome.Deployment
	switch {
	case !v.maySleep(), d == nil, v.seen.Outcome.Service == nil, d.DeletionTimestamp != nil, d.Status.ReadyReplicas > 0,
		!workload.Served(v.fn, d), v.wakeFailed() != "":
		return false
	case workload.Replicas(d) == 0:
		return true
	}
	before := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionAvailable).Reason
	return (before == v1beta1.ReasonAsleep || before == v1beta1.ReasonNoActivator) && v.rolledOut() && v.podsNotCreated() == "" &&
		!slices.ContainsFunc(v.seen.Snapshot.Pods, func(pod corev1.Pod) bool { return workload.CannotStart(&pod) })
}

// maySleep reports whether a function may sleep, or slept until a window with a higher minimum of
// replicas began: an activator receives its requests until its pods are ready.
func (v *view) maySleep() bool {
	return v.fn.MaySleep() || v.seen.Snapshot.Activator.Routed && !v.fn.Stopped() && v.fn.Spec.Scaling != nil && len(v.fn.Spec.Scaling.Windows) > 0
}

// asleepLatest reports whether the function sleeps or wakes with the latest revision, which has
// compiled.
func (v *view) asleepLatest() bool {
	return v.asleep() && v.outcomeInStatus().reason == v1beta1.ReasonBuilt && v.fn.Status.LatestRevision == v.revision
}

// noActivator returns the reason why no request reaches an activator that could wake the function;
// empty if requests do.
func (v *view) noActivator() string {
	switch {
	case !v.seen.Snapshot.Activator.Ready:
		return "the function is asleep, and no replica of the activator is ready to wake it; see Deployment goless-activator"
	case !v.seen.Snapshot.Activator.Routed:
		return "the function is asleep, and no EndpointSlice routes its requests to the activator; see the log of Deployment goless-activator"
	}
	return ""
}

// revisionByActivator returns the revision that serves requests although no pod is ready; empty if
// none does. While no pod of a function that may sleep is ready, the activator receives its
// requests and forwards them to a pod whose /readyz returns 200, regardless of other containers of
// the pod.
func (v *view) revisionByActivator() string {
	d := v.seen.Outcome.Deployment
	if !v.maySleep() || d == nil || workload.Replicas(d) == 0 || d.Status.ReadyReplicas > 0 || v.seen.Outcome.Service == nil || v.noActivator() != "" {
		return ""
	}
	for _, pod := range v.seen.Snapshot.Pods {
		serves := slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == desired.FunctionContainer && c.Ready
		})
		if serves && !workload.Ready(&pod) && !workload.Replaced(&pod) { // a ready pod will be counted by the Deployment
			return desired.RevisionOf(&pod)
		}
	}
	return ""
}

// wakeFailed returns the reason why the function could not be woken, and what prevents its pods
// from serving. It is empty if the last wake-up did not fail, or if a replica serves requests.
func (v *view) wakeFailed() string {
	why, d := v.seen.Snapshot.Activator.WakeFailed, v.seen.Outcome.Deployment
	if why == "" || !v.maySleep() || d != nil && d.Status.ReadyReplicas > 0 || v.revisionByActivator() != "" {
		return ""
	}
	text := "the last request failed to wake the function: " + workload.OneLine(why)
	problem, waits := v.podProblem()
	if problem != nil {
		waits = problem.Message
	}
	if waits != "" {
		text += "; " + waits
	}
	return text
}

// lacks returns the optional parts that are missing: objects that could not be applied, and the
// ability to sleep or to scale.
func (v *view) lacks() []validation.Problem {
	all := v.seen.Outcome.Degraded
	if why := v.cannotScale(); why != "" { // before CannotSleep: the first reason is that of the condition, and alerts depend on it
		all = append(slices.Clone(all), validation.Problem{
			Reason:  v1beta1.ReasonCannotScale,
			Message: workload.OneLine("the number of replicas does not change: " + why),
		})
	}
	if why := v.seen.Snapshot.Activator.StaysAwake; why != "" && v.fn.MaySleep() {
		all = append(slices.Clone(all), validation.Problem{
			Reason:  v1beta1.ReasonCannotSleep,
			Message: workload.OneLine("cannot scale the function to zero, because the activator cannot read how long it has been idle: " + why),
		})
	}
	return all
}

// cannotScale returns why the activator does not scale a function by its requests in flight; empty
// if it does, or if the function has no pods.
func (v *view) cannotScale() string {
	d := v.seen.Outcome.Deployment
	switch {
	case !v.fn.ScalesOnRequests() || v.seen.Plan.ReplicasLeftToOthers(v.fn) || d == nil || workload.Replicas(d) == 0:
		return ""
	case !v.seen.Snapshot.Activator.Ready:
		return "no replica of the activator is ready; see Deployment goless-activator"
	case v.seen.Snapshot.Activator.CannotScale != "":
		return v.seen.Snapshot.Activator.CannotScale
	}
	return ""
}

// lacksReplicas reports whether a ready Function does not have the desired number of replicas. A
// function that falls asleep or wakes counts only if something prevents its pod from serving:
// falling asleep and waking happen often, and no user waits for them.
func (v *view) lacksReplicas() bool {
	if v.fn.MaySleep() && v.want() == 0 {
		return false // its last pods are terminating
	}
	problem, _ := v.podProblem()
	kept := problem != nil || slices.ContainsFunc(v.latestPods(), func(pod corev1.Pod) bool { return v.waitsForFiles(&pod) != "" })
	return !v.hasWantedReplicas() && (kept || !v.sleepingOrWaking())
}

// want returns the desired number of replicas.
func (v *view) want() int32 {
	n, fixed := v.fn.FixedReplicas()
	if (!fixed || v.seen.Plan.ReplicasLeftToOthers(v.fn)) && v.seen.Outcome.Deployment != nil {
		return workload.Replicas(v.seen.Outcome.Deployment)
	}
	return n
}
