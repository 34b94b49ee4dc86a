package e2e

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// Scaling adds and removes pods. It changes no template, so running pods are not recompiled. With 0
// replicas there are no pods.
func TestScale(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("scaled", answering("at scale"))))
	ns.answers(fn, "at scale")
	first := uids(ns.pods(fn))
	template := get(ns, fn.Name, &appsv1.Deployment{}).Spec.Template

	ready := condition(fn, v1beta1.ConditionReady).LastTransitionTime
	fn = ns.ready(ns.change(fn, replicas(3)))
	if now := uids(ns.pods(fn)); len(now) != 3 || !slices.Contains(now, first[0]) {
		t.Errorf("the pods were %v and are %v", first, now)
	}
	if s := fn.Status; s.Replicas != 3 || s.ReadyReplicas != 3 {
		t.Errorf("the status reports %d replicas, %d ready", s.Replicas, s.ReadyReplicas)
	}

	fn = ns.ready(ns.change(fn, replicas(1)))
	for _, fn := range versions[*v1beta1.Function](ns.witness) {
		if since := condition(fn, v1beta1.ConditionReady).LastTransitionTime; holds(fn, v1beta1.ConditionAvailable) && since.After(ready.Time) {
			t.Errorf("Ready was not True while scaling: %+v", fn.Status.Conditions)
		}
	}

	fn = ns.ready(ns.change(fn, replicas(0)))
	ns.isStopped(fn)

	fn = ns.ready(ns.change(fn, replicas(1)))
	ns.answers(fn, "at scale")
	if diff := cmp.Diff(template, get(ns, fn.Name, &appsv1.Deployment{}).Spec.Template); diff != "" {
		t.Errorf("scaling changed the template:\n%s", diff)
	}
	if sets := names[*appsv1.ReplicaSet](ns.witness); len(sets) != 1 {
		t.Errorf("scaling rolled out: %v", sets)
	}
	noRestarts(t, ns)
	ns.fewPods(fn, 4) // 1, then 2 more, then none, then 1
}

// noRestarts fails the test if a container of the namespace was restarted.
func noRestarts(t *testing.T, ns *namespace) {
	t.Helper()
	for _, pod := range versions[*corev1.Pod](ns.witness) {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
			if c.RestartCount > 0 {
				t.Errorf("container %s of pod %s was restarted", c.Name, pod.Name)
			}
		}
	}
}

func TestKubectlScale(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("by-hand", answering("scaled by hand"))))
	for _, n := range []int32{2, 0, 1} {
		ns.kubectl("scale", "fn/by-hand", fmt.Sprintf("--replicas=%d", n))
		fn = ns.ready(get(ns, fn.Name, &v1beta1.Function{}))
		if got := fn.WantedReplicas(); got != n {
			t.Errorf("spec.replicas is %d after kubectl scale --replicas=%d", got, n)
		}
	}
	ns.answers(fn, "scaled by hand")
	if got, want := fn.Status.Selector, functionLabel+"=by-hand"; got != want {
		t.Errorf("the selector of the scale subresource is %q, want %q", got, want)
	}
}

// isStopped fails the test unless a Function is ready and has no pods.
func (ns *namespace) isStopped(fn *v1beta1.Function) {
	ns.t.Helper()
	ns.has(fn, v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonStopped)
	ns.has(fn, v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonStopped)
	if n := *get(ns, fn.Name, &appsv1.Deployment{}).Spec.Replicas; n != 0 {
		ns.t.Errorf("the Deployment has %d replicas", n)
	}
	if pods := ns.pods(fn); len(pods) > 0 {
		ns.t.Errorf("%d pods run", len(pods))
	}
	if fn.WantedReplicas() != 0 || fn.Status.Replicas != 0 {
		ns.t.Errorf("spec.replicas is %d, status.replicas %d", fn.WantedReplicas(), fn.Status.Replicas)
	}
}
