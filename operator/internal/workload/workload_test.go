package workload_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/workload"
)

// Transient states of a starting pod do not count as failures.
func TestCannotStart(t *testing.T) {
	builder := func(state corev1.ContainerState) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: desired.BuildContainer, State: state}}}}
	}
	function := func(now, before corev1.ContainerState) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: desired.FunctionContainer, State: now, LastTerminationState: before}}}}
	}
	var never corev1.ContainerState
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	waiting := func(message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Message: message}}
	}
	unscheduled := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}}}
	evicted, deleted := *unscheduled.DeepCopy(), *unscheduled.DeepCopy()
	evicted.Status.Phase, deleted.DeletionTimestamp = corev1.PodFailed, new(metav1.Now())
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want bool
	}{
		"New":          {corev1.Pod{}, false},
		"Compiling":    {builder(running), false},
		"Compiled":     {builder(ended(0)), false},
		"NotCompiled":  {builder(ended(10)), true},
		"Initializing": {function(waiting(""), never), false},
		"Running":      {function(running, never), false},
		"Ended":        {function(ended(0), never), true},
		"NoImage":      {function(waiting("no such image"), never), true},
		"Crashing":     {function(waiting(""), ended(2)), true},
		"NoRoom":       {unscheduled, true},
		"Evicted":      {evicted, false},
		"Deleted":      {deleted, false},
	} {
		if got := workload.CannotStart(&test.pod); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
