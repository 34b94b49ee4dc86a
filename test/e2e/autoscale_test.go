package e2e

import (
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// An autoscaler of the user scales a Function without spec.scaling. No other client changes the
// number of its replicas, even in a rollout.
func TestAutoscalerOfTheUser(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("own", answering("one"))))
	autoscaler := autoscalerOf(fn, 2)
	ns.create(autoscaler)
	two := func(fn *v1beta1.Function) bool { return fn.Status.ReadyReplicas == 2 }
	fn = ns.becomes(fn, "scaled to two replicas", two)
	ns.ready(ns.change(fn, source(answering("two"))))
	ns.answers(fn, "two")
	ns.becomes(fn, "of two replicas still", two)
	if owners := get(ns, "own", autoscaler).OwnerReferences; len(owners) > 0 {
		t.Errorf("the autoscaler belongs to %v", owners)
	}
	var counts []int32
	for _, d := range versions[*appsv1.Deployment](ns.witness) {
		counts = append(counts, *d.Spec.Replicas)
	}
	if counts = slices.Compact(counts); !slices.Equal(counts, []int32{1, 2}) {
		t.Errorf("the Deployment had %v replicas, in this order", counts)
	}
}

// autoscalerOf returns an autoscaler that gives a Function n replicas.
func autoscalerOf(fn *v1beta1.Function, n int32) *autoscalingv2.HorizontalPodAutoscaler {
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "own"}}
	autoscaler.Spec = autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: v1beta1.GroupVersion.String(), Kind: "Function", Name: fn.Name},
		MinReplicas:    &n, MaxReplicas: n,
	}
	return autoscaler
}
