package activator

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// All Services are reconciled only after those changes of a replica that may matter to them.
func TestReplicaChanged(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "activator", UID: "uid"}}
	pod.Spec.NodeName = "node"
	pod.Status.PodIP, pod.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{ContainerID: "first"}}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"Annotation": {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
		"Heartbeat":  {func(p *corev1.Pod) { p.Status.Conditions[0].LastProbeTime = metav1.Now() }, false},
		"Unready":    {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, true},
		"Deleted":    {func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, true},
		"Address":    {func(p *corev1.Pod) { p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: "fd00::1"}) }, true},
		"Restarted":  {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "second" }, true},
	} {
		now := pod.DeepCopy()
		test.change(now)
		if got := replicaChanged.Update(event.TypedUpdateEvent[*corev1.Pod]{ObjectOld: pod, ObjectNew: now}); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if !replicaChanged.Create(event.TypedCreateEvent[*corev1.Pod]{Object: pod}) || !replicaChanged.Delete(event.TypedDeleteEvent[*corev1.Pod]{Object: pod}) {
		t.Error("a new or deleted replica is ignored")
	}
}
