package function

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

// unswapped says more of a Service that belongs to another Function, where that one
// waits for the Service of this one: each keeps its own until it has the other, so
// both would wait for ever.
func (r *Reconciler) unswapped(ctx context.Context, fn *v1beta1.Function, err error) error {
	taken, ok := errors.AsType[*notOwnedError](err)
	if !ok || taken.controller == nil || taken.controller.Kind != "Function" {
		return err
	}
	var other v1beta1.Function
	if r.Client.Get(ctx, types.NamespacedName{Namespace: fn.Namespace, Name: taken.controller.Name}, &other) != nil {
		return err // it is gone, and its Service follows
	}
	var wanted corev1.Service
	name := types.NamespacedName{Namespace: fn.Namespace, Name: other.ServiceName()}
	if r.Client.Get(ctx, name, &wanted) != nil || !metav1.IsControlledBy(&wanted, fn) {
		return err
	}
	swap := *taken
	swap.wanted = wanted.Name
	return &swap
}
