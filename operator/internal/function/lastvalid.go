package function

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
)

// lastValid is the Function with the last source that was not refused; nil when
// there was none.
func (r *Reconciler) lastValid(ctx context.Context, fn *v1beta1.Function) (*v1beta1.Function, error) {
	if fn.Status.LatestRevision == "" {
		return nil, nil
	}
	var source corev1.ConfigMap
	key := client.ObjectKey{Namespace: fn.Namespace, Name: desired.ConfigMapName(fn, fn.Status.LatestRevision)}
	if err := r.Live.Get(ctx, key, &source); err != nil { // the cache has no content
		return nil, client.IgnoreNotFound(err)
	}
	valid := fn.DeepCopy()
	valid.Spec.Function = source.Data[handler.Filename]
	if !metav1.IsControlledBy(&source, fn) || desired.Revision(valid.Spec.Function) != fn.Status.LatestRevision {
		return nil, nil // somebody has laid it there; only the name says that it was ours
	}
	return valid, nil
}

// keep is for a Function whose source is refused and whose last valid one is lost
// as well: what runs of it goes on running, is scaled, and keeps its Service.
func (r *Reconciler) keep(ctx context.Context, fn *v1beta1.Function) (*status.Problem, error) {
	var live appsv1.Deployment
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(fn), &live); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !metav1.IsControlledBy(&live, fn) {
		return nil, nil
	}
	owned, err := appsv1ac.ExtractDeployment(&live, FieldOwner)
	if err != nil {
		return nil, fmt.Errorf("reading the managed fields of Deployment %q: %w", live.Name, err)
	}
	if owned.Spec != nil && live.Spec.Replicas != nil && *live.Spec.Replicas != fn.WantedReplicas() {
		owned.Spec.WithReplicas(fn.WantedReplicas())
		if err := r.Client.Apply(ctx, owned.WithUID(live.UID), client.ForceOwnership); err != nil {
			return nil, fmt.Errorf("scaling Deployment %q: %w", live.Name, err)
		}
	}
	return solvable(ensure(ctx, r, fn, desired.Service(fn), &corev1.Service{}, corev1ac.ExtractService))
}
