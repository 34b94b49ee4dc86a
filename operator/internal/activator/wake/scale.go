package wake

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/target"
	"goless.io/operator/internal/workload"
)

// fromZero changes a Scale of 0 replicas to 1. The API server leaves the field out if it is 0, which
// JSON Patch tests as null. If there are replicas already, the test fails and nothing changes.
var fromZero = client.RawPatch(types.JSONPatchType, []byte(
	`[{"op":"test","path":"/spec/replicas","value":null},{"op":"add","path":"/spec/replicas","value":1}]`))

// scaleFromZero gives a function one replica if it has none, unless it was stopped meanwhile, which is
// [ErrStopped]. It is not an error if another activator has scaled it first. It is an error if a policy rejects the change.
func (w *Waker) scaleFromZero(ctx context.Context, t target.Target) error {
	var service corev1.Service
	if err := w.Client.Get(ctx, t.Service, &service); client.IgnoreNotFound(err) != nil {
		return err
	}
	if now, _ := target.Of(&service); !now.MaySleep() {
		return w.unlessStopped(ctx, t.Function)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: t.Function.Namespace, Name: t.Function.Name}}
	err := w.Client.SubResource("scale").Patch(ctx, deployment, fromZero)
	if err == nil || apierrors.IsConflict(err) || apierrors.IsInvalid(err) && w.hasReplicas(ctx, t.Function) {
		return nil
	}
	return fmt.Errorf("scaling the Deployment to 1: %w", err)
}

// unlessStopped returns nil if the Deployment of a function that may not sleep has replicas, of which a pod will come,
// and [ErrStopped] if it has none.
func (w *Waker) unlessStopped(ctx context.Context, function types.NamespacedName) error {
	var d appsv1.Deployment
	err := w.Live.Get(ctx, function, &d)
	if apierrors.IsNotFound(err) || err == nil && workload.Replicas(&d) == 0 {
		return ErrStopped
	}
	return err
}

// hasReplicas tells whether the Deployment of a function is scaled to more than zero.
func (w *Waker) hasReplicas(ctx context.Context, function types.NamespacedName) bool {
	var d appsv1.Deployment
	return w.Live.Get(ctx, function, &d) == nil && workload.Replicas(&d) > 0
}

// cannotCreatePod tells whether the controllers of Kubernetes could not create a pod of the function.
func (w *Waker) cannotCreatePod(ctx context.Context, function types.NamespacedName) bool {
	var d appsv1.Deployment
	return w.Live.Get(ctx, function, &d) == nil && d.Status.ObservedGeneration >= d.Generation &&
		slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		})
}
