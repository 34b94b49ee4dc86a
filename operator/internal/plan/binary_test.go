package plan_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/plan"
)

// Orders are doubted for pods that may be fetching a binary that the build service has lost, and
// not for other pods, such as pods that are not scheduled yet.
func TestDoubtOrders(t *testing.T) {
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	now := time.Unix(1e9, 0)
	since := func(seconds int) corev1.ContainerState {
		started := metav1.NewTime(now.Add(-time.Duration(seconds) * time.Second))
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	}
	running := since(30)
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	for name, c := range map[string]struct {
		container corev1.ContainerStatus
		want      bool
	}{
		"Pending":       {corev1.ContainerStatus{State: waiting}, false},
		"Started":       {corev1.ContainerStatus{State: running}, true},
		"Ready":         {corev1.ContainerStatus{State: running, Ready: true}, false},
		"Restarted":     {corev1.ContainerStatus{State: running, RestartCount: 1, LastTerminationState: ended(2)}, false},
		"WithoutBinary": {corev1.ContainerStatus{State: waiting, RestartCount: 1, LastTerminationState: ended(125)}, true},
		"NeverReady":    {corev1.ContainerStatus{State: since(13 * 60)}, false},
		"NotReadyAgain": {corev1.ContainerStatus{State: since(13 * 60), RestartCount: 2, LastTerminationState: ended(125)}, false},
		"FetchesAgain":  {corev1.ContainerStatus{State: running, RestartCount: 2, LastTerminationState: ended(125)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, shared, first).serving(binary, 0).answer(buildclient.Answer{Binary: binary}).pod(c.container)
			s.seen.Time = now
			p := plan.Of(s.fn, s.seen)
			if p.DoubtOrders != c.want || len(p.Orders) != 1 {
				t.Errorf("%d orders, doubted %t, want %t", len(p.Orders), p.DoubtOrders, c.want)
			}
		})
	}
}
