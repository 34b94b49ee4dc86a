package function

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	return r.withRevision(ctx, fn, fn.Status.LatestRevision)
}

// withRevision is the Function with the source of one of its revisions; nil when
// that is lost, or when revision is empty.
func (r *Reconciler) withRevision(ctx context.Context, fn *v1beta1.Function, revision string) (*v1beta1.Function, error) {
	if revision == "" {
		return nil, nil
	}
	var source corev1.ConfigMap
	key := client.ObjectKey{Namespace: fn.Namespace, Name: desired.ConfigMapName(fn, revision)}
	if err := r.Live.Get(ctx, key, &source); err != nil { // the cache has no content
		return nil, client.IgnoreNotFound(err)
	}
	valid := fn.DeepCopy()
	valid.Spec.Function = source.Data[handler.Filename]
	if !metav1.IsControlledBy(&source, fn) || desired.Revision(valid.Spec.Function) != revision {
		return nil, nil // somebody has laid it there; only the name says that it was ours
	}
	return valid, nil
}

// keep is for a Function whose source is refused and whose last valid one is lost
// as well: what runs of it goes on running, is scaled, and keeps its Service.
func (r *Reconciler) keep(ctx context.Context, fn *v1beta1.Function) (*status.Problem, error) {
	live, owned, err := r.ownedDeployment(ctx, fn)
	if err != nil || owned == nil {
		return nil, err
	}
	if owned.Spec != nil && live.Spec.Replicas != nil && *live.Spec.Replicas != fn.WantedReplicas() {
		owned.Spec.WithReplicas(fn.WantedReplicas())
		if err := r.apply(ctx, owned, "uid", string(live.UID), live); err != nil {
			return nil, fmt.Errorf("scaling Deployment %q: %w", live.Name, err)
		}
	}
	return solvable(ensure(ctx, r, fn, desired.Service(fn), &corev1.Service{}, corev1ac.ExtractService))
}
