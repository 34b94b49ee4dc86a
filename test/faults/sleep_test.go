package faults

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// TestSleep plays the role of the activator: it makes a Function sleep and wakes it. If a
// broken revision arrives while the Function sleeps, the previous one keeps serving.
func TestSleep(t *testing.T) {
	enter(t)
	tr := newTrial(t)
	defer tr.explain()
	tr.create(func(spec *v1beta1.FunctionSpec) {
		spec.Scaling = &v1beta1.Scaling{Min: new(int32(0)), Max: new(int32(3))}
	})
	tr.awaitReady()
	tr.route()
	for range 5 {
		tr.scale(0)
		tr.await(tr.rests)
		tr.scale(1)
		tr.await(func() error {
			if ready := tr.condition(v1beta1.ConditionReady); ready.Status != metav1.ConditionTrue {
				t.Fatalf("while the function wakes, Ready is %s with reason %s: %s", ready.Status, ready.Reason, ready.Message)
			}
			return tr.reason(v1beta1.ReasonServing)()
		})
		tr.awaitReady()
	}
	tr.scale(0)
	tr.await(tr.rests)
	tr.change(source(broken))
	tr.await(tr.reason(v1beta1.ReasonCompileFailed))
	tr.await(func() error {
		if !tr.told(v1beta1.ReasonCompileFailed) {
			return errors.New("there is no event of the broken version")
		}
		return nil
	})
	if tr.told(v1beta1.ReasonAsleep) {
		t.Error("falling asleep created an event")
	}
	if available := tr.condition(v1beta1.ConditionAvailable); available.Status != metav1.ConditionTrue {
		t.Errorf("with a broken revision, Available is %s with reason %s", available.Status, available.Reason)
	}
	tr.change(source(second))
	tr.awaitReady()
	tr.scale(0)
	tr.await(tr.rests)
	tr.change(source(first))
	tr.awaitReady()
	tr.change(func(spec *v1beta1.FunctionSpec) { spec.Scaling, spec.Replicas = nil, new(int32(2)) })
	tr.awaitReady()
	if n := replicasOf(tr.child("Deployment")); n != 2 {
		t.Errorf("without spec.scaling there are %d replicas", n)
	}
}

// route routes the requests of the Function to the activator, as the activator does.
func (tr *trial) route() {
	tr.t.Helper()
	h, ctx := world(tr.t), tr.t.Context()
	const ip = "192.0.2.1"
	tr.must(h.plane.StandForActivator(ctx, ip))
	var service corev1.Service
	tr.must(h.client.Get(ctx, client.ObjectKey{Namespace: tr.ns, Name: subject}, &service))
	tr.must(h.client.Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: tr.ns, Name: subject + "-activator",
			Labels: map[string]string{
				discoveryv1.LabelServiceName: subject, discoveryv1.LabelManagedBy: "goless-activator", v1beta1.FunctionLabel: subject,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Service", Name: subject, UID: service.UID}},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip}}},
	}))
}

// rests returns nil if the Function sleeps and reports that.
func (tr *trial) rests() error {
	if err := tr.reason(v1beta1.ReasonAsleep)(); err != nil {
		return err
	}
	if tr.condition(v1beta1.ConditionReconciling).Status == metav1.ConditionTrue || tr.fn().Status.Replicas > 0 {
		return errors.New("its pods are still there")
	}
	if n := replicasOf(tr.child("Deployment")); n != 0 {
		return fmt.Errorf("its Deployment has %d replicas", n)
	}
	return nil
}

// told reports whether there is an event with a reason.
func (tr *trial) told(reason string) bool {
	tr.t.Helper()
	var events eventsv1.EventList
	tr.must(world(tr.t).client.List(tr.t.Context(), &events, client.InNamespace(tr.ns)))
	return slices.ContainsFunc(events.Items, func(event eventsv1.Event) bool { return event.Reason == reason })
}

// scale sets the replicas of the Function's Deployment, as clients other than the operator do.
func (tr *trial) scale(n int32) {
	tr.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: subject}}
	body := &autoscalingv1.Scale{ObjectMeta: d.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: n}}
	tr.must(world(tr.t).client.SubResource("scale").Update(tr.t.Context(), d, client.WithSubResourceBody(body)))
}

func replicasOf(deployment *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(deployment.Object, "spec", "replicas")
	return n
}
