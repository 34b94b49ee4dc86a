// Package workload reads from a Deployment and its pods how the replicas of a function fare. It
// reads nothing from a cluster, and decides nothing.
package workload

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// NewReplicaSetAvailable is the reason of a Deployment's Progressing condition when a
// rollout is over.
const NewReplicaSetAvailable = "NewReplicaSetAvailable"

// Progressing is the condition that says how far a rollout of a Deployment is; an empty one while
// the Deployment controller has not looked at it.
func Progressing(d *appsv1.Deployment) appsv1.DeploymentCondition {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c
		}
	}
	return appsv1.DeploymentCondition{}
}

// Replicas is how many pods a Deployment asks for; 1 by default.
func Replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// AllAvailable tells whether a Deployment has as many pods as it asks for, all of them available and of
// its latest template, and no others.
func AllAvailable(d *appsv1.Deployment) bool {
	s, want := d.Status, Replicas(d)
	return s.ObservedGeneration >= d.Generation && s.Replicas == want && s.UpdatedReplicas == want && s.AvailableReplicas == want
}

// Served reports whether the status of a Function says that the revision of its Deployment was the last
// one to serve, although the function may sleep now. While it sleeps there are no pods that tell. Without
// an activator it is not available, and sleeps on.
func Served(fn *v1beta1.Function, d *appsv1.Deployment) bool {
	available := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionAvailable)
	return available != nil && (available.Status == metav1.ConditionTrue || available.Reason == v1beta1.ReasonNoActivator) &&
		fn.Status.ReadyRevision == desired.RevisionOf(&d.Spec.Template)
}

// Replaced tells whether a pod is being deleted or has been evicted, so that another one starts in
// its place.
func Replaced(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Unscheduled returns the condition that says why a pod is on no node yet; nil where it is on one,
// or the scheduler has not looked at it.
func Unscheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// CannotStart tells whether a pod will not become ready by itself: no node has room for it, a
// container has failed, or a container waits for something that does not exist.
func CannotStart(pod *corev1.Pod) bool {
	if Replaced(pod) {
		return false
	}
	containers := slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
	return Unscheduled(pod) != nil || slices.ContainsFunc(containers, func(c corev1.ContainerStatus) bool {
		ended, waits := c.State.Terminated, c.State.Waiting
		return c.LastTerminationState.Terminated != nil || waits != nil && waits.Message != "" ||
			ended != nil && (ended.ExitCode != 0 || c.Name == desired.FunctionContainer)
	})
}

// CannotFetchBinary tells whether a pod could not fetch its binary the last time that it tried.
func CannotFetchBinary(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == desired.FunctionContainer && !c.Ready && EndedWithoutBinary(pod, LastEnd(&c))
	})
}

// longestFetch is how long a launcher that runs may be fetching its binary: it gives up after 45 s, and
// the clocks of nodes differ.
const longestFetch = time.Minute

// MayFetchBinary reports whether a pod may be fetching its binary now: its container has started within
// the last minute, for the first time or after it could not fetch the binary, or is about to start again
// after that. One that ended otherwise had its binary, and the build service need not be asked for it as
// often as the container restarts.
func MayFetchBinary(pod *corev1.Pod, now time.Time) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		failed := EndedWithoutBinary(pod, LastEnd(&c))
		switch running := c.State.Running; {
		case c.Name != desired.FunctionContainer || c.Ready:
			return false
		case running != nil:
			return (failed || c.RestartCount == 0) && now.Sub(running.StartedAt.Time) < longestFetch
		default:
			return failed
		}
	})
}

// LastEnd returns how a container ended the last time; nil if it never has.
func LastEnd(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	return cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
}

// exitWithoutBinary is the exit code of a launcher that could not fetch its binary.
const exitWithoutBinary = 125

// EndedWithoutBinary tells whether a container of a pod ended because it could not fetch its binary.
func EndedWithoutBinary(pod *corev1.Pod, ended *corev1.ContainerStateTerminated) bool {
	return ended != nil && ended.ExitCode == exitWithoutBinary && pod.Labels[desired.StrategyLabel] == string(v1beta1.BuildShared)
}
