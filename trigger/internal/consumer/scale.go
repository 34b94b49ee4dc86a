package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/functionref"
	"goless.io/trigger/internal/keda"
	"goless.io/trigger/internal/trigger"
)

// scale returns the changes that create or delete the objects that scale the Function, and a note
// about the limit of its replicas.
func (k Kind[T]) scale(t T, seen Seen) (changes []apply.Change, note string, problem *functionref.Problem) {
	var gone []apply.Change
	if k.KEDA {
		gone = append(gone, apply.Gone(seen.ScaledObject))
	}
	gone = append(gone, apply.Gone(seen.Service))
	switch {
	case t.CommonSpec().Scale == nil:
		return gone, "", nil
	case !k.KEDA:
		return gone, "", mistake("spec.scale: KEDA is not installed (the cluster has no ScaledObjects)")
	case seen.Function.Spec.Scaling != nil:
		return gone, "", mistake(fmt.Sprintf("spec.scale: Function %q has spec.scaling, and only one of them can set its replicas; remove one", seen.Function.Name))
	}
	if oldest := slices.MinFunc(append(seen.Scalers, t), byAge); byAge(oldest, t) != 0 {
		return gone, "", &functionref.Problem{Reason: v1alpha1.ReasonScaleConflict, Stalled: true, Message: fmt.Sprintf(
			"spec.scale: only the oldest trigger with spec.scale can scale Function %q, which is %s %q, even if it is not ready; remove spec.scale from one of them",
			t.CommonSpec().FunctionRef.Name, oldest.TriggerKind(), oldest.GetName())}
	}
	most, note := maxReplicas(t, seen)
	changes = []apply.Change{apply.To(service(t), seen.Service, corev1ac.ExtractService)}
	if seen.Function.UID == "" && seen.ScaledObject.GetUID() == "" {
		// KEDA looks for a missing target less and less often, up to every 17 minutes.
		return changes, note, nil
	}
	return append(changes, apply.To(scaledObject(t, most), seen.ScaledObject, func(live *unstructured.Unstructured, _ string) (*keda.ScaledObject, error) {
		return keda.Extract(live, v1alpha1.TriggerLabel, v1alpha1.KindLabel)
	})), note, nil
}

// scalingState returns a note if scaling is paused, and the reason why KEDA does not scale the
// Function, or nil.
func scalingState(t v1alpha1.StreamTrigger, seen Seen) (note string, problem *functionref.Problem) {
	if t.CommonSpec().Scale == nil || seen.Function.UID == "" {
		return "", nil
	}
	state := keda.StateOf(t.GetName(), seen.ScaledObject)
	switch {
	case state.Problem != "":
		return "", &functionref.Problem{Reason: v1alpha1.ReasonScaleNotReady, Message: state.Problem}
	case state.Paused:
		return fmt.Sprintf("scaling is paused by an annotation of ScaledObject %q", t.GetName()), nil
	}
	return "", nil
}

// byAge compares triggers by age, oldest first, then by kind and name.
func byAge(a, b v1alpha1.StreamTrigger) int {
	return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time),
		cmp.Compare(a.TriggerKind(), b.TriggerKind()), cmp.Compare(a.GetName(), b.GetName()))
}

// maxReplicas returns spec.scale.max, or less if spec.concurrency or the number of partitions of
// the topic limits the number of concurrent requests. note is the reason for the lower limit.
func maxReplicas(t v1alpha1.StreamTrigger, seen Seen) (most int32, note string) {
	spec, why := t.CommonSpec(), ""
	most = spec.Scale.Max
	if spec.Concurrency < most {
		most, why = spec.Concurrency, fmt.Sprintf("spec.concurrency is %d", spec.Concurrency)
	}
	if partitions := cmp.Or(seen.Partitions, t.StreamStatus().Partitions); partitions > 0 && partitions < most {
		most, why = partitions, fmt.Sprintf("the number of partitions of the topic is %d", partitions)
	}
	if most = max(most, leastReplicas(spec.Scale)); most == spec.Scale.Max {
		return most, ""
	}
	return most, fmt.Sprintf("KEDA scales up to %d replicas instead of spec.scale.max, %d: %s, which limits concurrent requests", most, spec.Scale.Max, why)
}

// leastReplicas returns scale.min, or its default.
func leastReplicas(scale *v1alpha1.StreamScale) int32 {
	if scale.Min == nil {
		return 1
	}
	return *scale.Min
}

// scalersOf returns the triggers of all kinds that have spec.scale and call a Function. They are
// from the cache and must not be changed.
func (k Kind[T]) scalersOf(ctx context.Context, namespace, function string) ([]v1alpha1.StreamTrigger, error) {
	var kafka v1alpha1.KafkaTriggerList
	var nats v1alpha1.NATSTriggerList
	ofFunction := []client.ListOption{client.InNamespace(namespace), client.MatchingFields{trigger.ByFunction: function}, client.UnsafeDisableDeepCopy}
	if err := errors.Join(k.Client.List(ctx, &kafka, ofFunction...), k.Client.List(ctx, &nats, ofFunction...)); err != nil {
		return nil, err
	}
	var all []v1alpha1.StreamTrigger
	for i := range kafka.Items {
		all = append(all, &kafka.Items[i])
	}
	for i := range nats.Items {
		all = append(all, &nats.Items[i])
	}
	return slices.DeleteFunc(all, func(t v1alpha1.StreamTrigger) bool {
		return t.CommonSpec().Scale == nil || t.GetDeletionTimestamp() != nil
	}), nil
}

// Competing maps a stream trigger of any kind to the triggers of this kind that have spec.scale and
// call the same Function.
func (k Kind[T]) Competing(ctx context.Context, of client.Object) []reconcile.Request {
	spec := of.(v1alpha1.StreamTrigger).CommonSpec()
	if spec.Scale == nil { // for an update, the old object is mapped too
		return nil
	}
	scalers, err := k.scalersOf(ctx, of.GetNamespace(), spec.FunctionRef.Name)
	if err != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	for _, t := range scalers {
		if _, ok := t.(T); ok {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(t)})
		}
	}
	return requests
}

// serviceName returns the name of the Service of a trigger, which KEDA queries. It differs from the
// name of the trigger, because the Service of a Function may have that name.
func serviceName(t v1alpha1.StreamTrigger) string { return t.GetName() + "-lag" }

func service(t v1alpha1.StreamTrigger) *corev1ac.ServiceApplyConfiguration {
	labels := apply.Labels(t)
	return corev1ac.Service(serviceName(t), t.GetNamespace()).
		WithLabels(labels).
		WithOwnerReferences(apply.Owner(t)).
		WithSpec(corev1ac.ServiceSpec().
			WithSelector(labels).
			WithPublishNotReadyAddresses(true). // a blocked trigger has a lag too
			WithPorts(corev1ac.ServicePort().WithName("metrics").WithProtocol(corev1.ProtocolTCP).WithPort(adminPort).WithTargetPort(intstr.FromString("metrics"))))
}

// scaledObject returns the ScaledObject with which KEDA sets the replicas of the Function. KEDA
// queries the pod of the trigger for the number of waiting events and therefore needs no
// credentials.
func scaledObject(t v1alpha1.StreamTrigger, most int32) *keda.ScaledObject {
	spec := t.CommonSpec()
	return keda.Of(t.GetName(), t.GetNamespace(), apply.Labels(t), apply.Owner(t), keda.Spec{
		Target: keda.Target{APIVersion: v1beta1.GroupVersion.String(), Kind: "Function", Name: spec.FunctionRef.Name},
		Min:    leastReplicas(spec.Scale),
		Max:    most,
		Triggers: []keda.Trigger{{Type: "metrics-api", Metadata: map[string]string{
			"url":           fmt.Sprintf("http://%s.%s.svc:%d/status", serviceName(t), t.GetNamespace(), adminPort),
			"valueLocation": "lag",
			"targetValue":   strconv.Itoa(int(max(spec.Scale.LagPerReplica, 1))),
		}}},
	})
}
