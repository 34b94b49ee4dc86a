package function

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/status"
)

// observe collects what the cluster shows of a Function. Labels find objects,
// owner references decide whether they count: anybody can set a label.
func (r *Reconciler) observe(ctx context.Context, fn *v1beta1.Function, seen *status.Seen) error {
	var service corev1.Service
	var deployment appsv1.Deployment
	var replicaSets appsv1.ReplicaSetList
	var pods corev1.PodList
	err := errors.Join(
		r.get(ctx, fn, fn.ServiceName(), &service), r.get(ctx, fn, fn.Name, &deployment),
		r.list(ctx, fn, &replicaSets), r.list(ctx, fn, &pods))
	if err != nil {
		return err
	}
	if seen.Service, err = r.service(ctx, fn, &service); err != nil {
		return err
	}
	if metav1.IsControlledBy(&deployment, fn) {
		seen.Deployment = &deployment
		seen.ReplicaSets = owned(replicaSets.Items, deployment.UID)
	}
	for _, set := range seen.ReplicaSets {
		seen.Pods = append(seen.Pods, owned(pods.Items, set.UID)...)
	}
	return nil
}

// first tells whether a Function has no Service yet, as far as the cache knows.
func (r *Reconciler) first(ctx context.Context, fn *v1beta1.Function) (bool, error) {
	var service corev1.Service
	err := r.get(ctx, fn, fn.ServiceName(), &service)
	return service.UID == "", err
}

// service is the one that the Function should have, or else one that it had.
func (r *Reconciler) service(ctx context.Context, fn *v1beta1.Function, named *corev1.Service) (*corev1.Service, error) {
	if metav1.IsControlledBy(named, fn) {
		return named, nil
	}
	var services corev1.ServiceList
	err := r.list(ctx, fn, &services)
	if former := owned(services.Items, fn.UID); len(former) > 0 {
		return &former[0], err
	}
	return nil, err
}

// get reads an object from the cache, not before the last write of it is there.
// What is not there stays empty.
func (r *Reconciler) get(ctx context.Context, fn *v1beta1.Function, name string, into client.Object) error {
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: fn.Namespace, Name: name}, into); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading %T: %w", into, err)
	}
	return nil
}

// list reads from the cache what carries the Function's label. It does not wait
// for the last write, because that would be one of any Function, which may hang.
func (r *Reconciler) list(ctx context.Context, fn *v1beta1.Function, into client.ObjectList) error {
	if err := r.Client.List(ctx, into, client.InNamespace(fn.Namespace), client.MatchingFields{byFunction: fn.Name}, unawaited); err != nil {
		return fmt.Errorf("listing %T: %w", into, err)
	}
	return nil
}

// owned are the objects whose controller is the one with the given UID.
func owned[T any, P interface {
	*T
	metav1.Object
}](objects []T, controller types.UID) []T {
	return slices.DeleteFunc(slices.Clone(objects), func(obj T) bool {
		ref := metav1.GetControllerOfNoCopy(P(&obj))
		return ref == nil || ref.UID != controller
	})
}
