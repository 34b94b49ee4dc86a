package status

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/workload"
)

// crash returns how a container of the latest revision exited, if it exits repeatedly after it has
// compiled; nil otherwise. A single exit does not count.
func (v *view) crash() *corev1.ContainerStateTerminated {
	for _, pod := range v.latestPods() {
		for _, c := range pod.Status.ContainerStatuses {
			ended := c.LastTerminationState.Terminated
			looping := c.RestartCount > 1 || c.State.Waiting != nil && c.State.Waiting.Reason == "CrashLoopBackOff"
			if c.Name == desired.FunctionContainer && ended != nil && !c.Ready && looping && !workload.EndedWithoutBinary(&pod, ended) {
				return ended
			}
		}
	}
	return nil
}

// End describes the exit of a replica that the kubelet restarts.
type End struct {
	At      time.Time
	Pod     *corev1.Pod
	Message string
}

// LatestEnd returns the latest End of the pods of a Function; nil if there is none. It excludes
// deleted and evicted pods, which are not restarted, and functions that could not fetch their
// binary, which have not started.
func LatestEnd(fn *v1beta1.Function, pods []corev1.Pod) (latest *End) {
	for _, pod := range pods {
		if workload.Replaced(&pod) {
			continue
		}
		for _, c := range pod.Status.ContainerStatuses {
			ended := workload.LastEnd(&c)
			if c.Name != desired.FunctionContainer || ended == nil || workload.EndedWithoutBinary(&pod, ended) {
				continue
			}
			if latest == nil || ended.FinishedAt.After(latest.At) {
				message := fmt.Sprintf("replica %s exited with code %d and is restarted: %s", pod.Name, ended.ExitCode, workload.ExitReason(fn, ended))
				latest = &End{ended.FinishedAt.Time, &pod, message}
			}
		}
	}
	return latest
}
