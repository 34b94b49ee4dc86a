// Package workload evaluates the state of a function's Deployment and pods. It does not access the
// cluster.
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

// NewReplicaSetAvailable is the reason of a Deployment's Progressing condition after a complete
// rollout.
const NewReplicaSetAvailable = "NewReplicaSetAvailable"

// Progressing returns the Progressing condition of a Deployment. It is empty if the Deployment
// controller has not set it yet.
func Progressing(d *appsv1.Deployment) appsv1.DeploymentCondition {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c
		}
	}
	return appsv1.DeploymentCondition{}
}

// Replicas returns the number of replicas in the spec of a Deployment. Default: 1.
func Replicas(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// AllAvailable reports whether all replicas of a Deployment use the latest pod template and are
// available, and no other pods exist.
func AllAvailable(d *appsv1.Deployment) bool {
	s, want := d.Status, Replicas(d)
	return s.ObservedGeneration >= d.Generation && s.Replicas == want && s.UpdatedReplicas == want && s.AvailableReplicas == want
}

// Served reports whether the revision of a Deployment was the last one to serve, according to the
// status of its Function. That is also true for a function that is asleep and has no pods, even if
// it is unavailable for lack of an activator.
func Served(fn *v1beta1.Function, d *appsv1.Deployment) bool {
	available := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionAvailable)
	return available != nil && (available.Status == metav1.ConditionTrue || available.Reason == v1beta1.ReasonNoActivator) &&
		fn.Status.ReadyRevision == desired.RevisionOf(&d.Spec.Template)
}

// Replaced reports whether a pod is being deleted or has failed, so that another pod replaces it.
func Replaced(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed
}

// Ready reports whether a pod is ready.
func Ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ReadySince returns the time since which a pod is ready; zero if it is not.
func ReadySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// Unscheduled returns the PodScheduled condition of a pod that cannot be scheduled, or nil.
func Unscheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// CannotStart reports whether a pod will not become ready without a change: it cannot be scheduled,
// a container has failed, or a container waits with a message, such as for an object that does not
// exist.
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

// CannotFetchBinary reports whether the function container's last attempt to fetch its binary
// failed.
func CannotFetchBinary(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name == desired.FunctionContainer && !c.Ready && EndedWithoutBinary(pod, LastEnd(&c))
	})
}

// longestFetch is the time for which a running launcher may be fetching its binary: it gives up after
// 11 minutes if the build service is unreachable. The rest is for clock skew of nodes.
const longestFetch = 12 * time.Minute

// MayFetchBinary reports whether a pod may be fetching its binary: its function container is not
// ready and
//
//   - has started within longestFetch, for the first time or after a failed fetch, or
//   - is about to be restarted after a failed fetch
//
// A container that ended for another reason already had its binary, so its restarts do not require
// another order to the build service.
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

// LastEnd returns the most recent termination of a container, or nil.
func LastEnd(c *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	return cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
}

// EndedWithoutBinary reports whether a container of a pod ended because it failed to fetch its
// binary.
func EndedWithoutBinary(pod *corev1.Pod, ended *corev1.ContainerStateTerminated) bool {
	return ended != nil && ended.ExitCode == desired.ExitWithoutBinary && pod.Labels[desired.StrategyLabel] == string(v1beta1.BuildShared)
}

// TestsEnd returns how the container of a pod that runs tests ended; nil if it has not, or if there is
// no pod.
func TestsEnd(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	if pod == nil {
		return nil
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name == desired.FunctionContainer {
			return LastEnd(&c)
		}
	}
	return nil
}

// TestsHaveFailed reports whether the pod that runs tests ended because they failed, used too much
// memory, or wrote too much to the disk. Other ends are not a result: the container could not be
// started, the launcher could not execute its binary, or the pod ended with its node. pod may be nil.
func TestsHaveFailed(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	ended := TestsEnd(pod)
	return ended != nil && (ended.ExitCode == 1 || ended.Reason == "OOMKilled") || OverLimits(pod)
}

// OverLimits reports whether the kubelet has evicted a pod for its use of the disk. A pod that is
// evicted because its node lacks resources has the condition DisruptionTarget.
func OverLimits(pod *corev1.Pod) bool {
	return pod.Status.Reason == "Evicted" && !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
	})
}
