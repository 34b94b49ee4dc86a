package faults

import (
	"fmt"
	"slices"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// TestOwnersOfReplicas moves a Function between fixed replicas, scaling on requests and scaling on
// cpu. The test plays the role of the activator and of the HorizontalPodAutoscaler's controller,
// which set the number of replicas. The operator never sets another number in between.
func TestOwnersOfReplicas(t *testing.T) {
	enter(t)
	tr := newTrial(t)
	defer tr.explain()
	onRequests := func(spec *v1beta1.FunctionSpec) {
		spec.Scaling = &v1beta1.Scaling{Max: new(int32(8)), Requests: new(int32(10))}
	}
	onCPU := func(spec *v1beta1.FunctionSpec) { spec.Scaling = &v1beta1.Scaling{Max: new(int32(8))} }
	tr.create(func(spec *v1beta1.FunctionSpec) { spec.Replicas = new(int32(3)) })
	tr.awaitReady()

	tr.change(onRequests)
	tr.await(tr.scaledBy(`{"min":1,"max":8,"requests":10}`, false))
	tr.scale(5)
	tr.awaitReady()
	tr.change(onCPU)
	tr.await(tr.scaledBy("", true))
	tr.scale(4)
	tr.awaitReady()
	tr.change(onRequests)
	tr.await(tr.scaledBy(`{"min":1,"max":8,"requests":10}`, false))
	tr.change(func(spec *v1beta1.FunctionSpec) { spec.Replicas = new(int32(0)) })
	tr.await(tr.reason(v1beta1.ReasonStopped))
	tr.await(tr.scaledBy("", false))
	tr.change(func(spec *v1beta1.FunctionSpec) { spec.Replicas, spec.Scaling = new(int32(2)), nil })
	tr.awaitReady()

	var counts []int64
	for _, d := range world(t).witness.of("Deployment", tr.ns, subject) {
		counts = append(counts, replicasOf(d.Unstructured))
	}
	if counts = slices.Compact(counts); !slices.Equal(counts, []int64{3, 5, 4, 0, 2}) {
		t.Errorf("the Deployment had %v replicas, in this order", counts)
	}
}

// scaledBy returns a check of who scales the Function: the activator, with the given annotation of
// the Service, or a HorizontalPodAutoscaler.
func (tr *trial) scaledBy(annotation string, autoscaler bool) func() error {
	return func() error {
		if got := tr.child("Service").GetAnnotations()[v1beta1.ScalingAnnotation]; got != annotation {
			return fmt.Errorf("the annotation of the Service is %q, want %q", got, annotation)
		}
		var found autoscalingv2.HorizontalPodAutoscalerList
		if err := world(tr.t).client.List(tr.t.Context(), &found, client.InNamespace(tr.ns)); err != nil {
			return err
		}
		if n := len(found.Items); (n == 1) != autoscaler {
			return fmt.Errorf("there are %d HorizontalPodAutoscalers", n)
		}
		return nil
	}
}
