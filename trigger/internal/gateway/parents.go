package gateway

import (
	"cmp"
	"context"
	"fmt"

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

// missing returns the Gateways of a trigger that do not exist.
func (k Kind) missing(ctx context.Context, t *v1alpha1.HTTPTrigger) ([]string, error) {
	var missing []string
	for _, ref := range t.Spec.ParentRefs {
		name := gatewayOf(t, ref)
		err := k.Client.Get(ctx, name, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "Gateway", APIVersion: gatewayv1.GroupVersion.String()}})
		if apierrors.IsNotFound(err) {
			missing = append(missing, name.String())
		} else if err != nil {
			return nil, fmt.Errorf("reading Gateway %q: %w", name, err)
		}
	}
	return missing, nil
}

func gatewayOf(t *v1alpha1.HTTPTrigger, ref v1alpha1.ParentReference) client.ObjectKey {
	return client.ObjectKey{Namespace: cmp.Or(ref.Namespace, t.Namespace), Name: ref.Name}
}
