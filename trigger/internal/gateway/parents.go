package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"goless.io/trigger/api/v1alpha1"
)

// OfGateway maps a Gateway to the HTTPTriggers that reference it.
func (k Kind) OfGateway(ctx context.Context, gateway client.Object) []reconcile.Request {
	var list v1alpha1.HTTPTriggerList
	_ = k.Client.List(ctx, &list, client.UnsafeDisableDeepCopy) // an error means that the cache has stopped
	var requests []reconcile.Request
	for _, t := range list.Items {
		for _, ref := range t.Spec.ParentRefs {
			if gatewayOf(&t, ref) == client.ObjectKeyFromObject(gateway) {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&t)})
			}
		}
	}
	return requests
}

// observeGateways sets the fields of seen about the Gateways of a trigger.
func (k Kind) observeGateways(ctx context.Context, t *v1alpha1.HTTPTrigger, seen *Seen) error {
	for _, ref := range t.Spec.ParentRefs {
		name := gatewayOf(t, ref)
		gateway := metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Gateway", APIVersion: gatewayv1.GroupVersion.String()}}
		err := k.Client.Get(ctx, name, &gateway)
		switch {
		case apierrors.IsNotFound(err) && !slices.Contains(seen.Missing, name.String()): // several references may name listeners of one Gateway
			seen.Missing = append(seen.Missing, name.String())
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("reading Gateway %q: %w", name, err)
		case gateway.CreationTimestamp.After(seen.Newest):
			seen.Newest = gateway.CreationTimestamp.Time
		}
	}
	return nil
}

func gatewayOf(t *v1alpha1.HTTPTrigger, ref v1alpha1.ParentReference) client.ObjectKey {
	return client.ObjectKey{Namespace: cmp.Or(ref.Namespace, t.Namespace), Name: ref.Name}
}
