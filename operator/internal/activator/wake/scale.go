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

	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/workload"
)

// fromZero returns a JSON Patch that changes a Scale from 0 replicas to the given number. The API
// server omits the field if it is 0, so the test compares with null. If the Scale has replicas, the
// test fails and nothing changes.
func fromZero(replicas int32) client.Patch {
	return client.RawPatch(types.JSONPatchType, fmt.Appendf(nil,
		`[{"op":"test","path":"/spec/replicas","value":null},{"op":"add","path":"/spec/replicas","value":%d}]`, replicas))
}

// scaleFromZero scales a function up if it has no replicas, for a number of requests that wait. It
// returns [ErrStopped] if the function was stopped, and an error if a policy rejects the change. It
// returns nil if another activator has already scaled the function.
func (w *Waker) scaleFromZero(ctx context.Context, b backend.Backend, requests int) error {
	var service corev1.Service
	if err := w.Client.Get(ctx, b.Service, &service); client.IgnoreNotFound(err) != nil {
		return err
	}
	now, _ := backend.FromService(&service)
	if !now.MaySleep() {
		return w.checkStopped(ctx, b.Function)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: b.Function.Namespace, Name: b.Function.Name}}
	replicas := w.replicasFor(now, requests)
	err := w.Client.SubResource("scale").Patch(ctx, deployment, fromZero(replicas))
	if replicas > 1 && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err) && !w.hasReplicas(ctx, b.Function)) {
		replicas = 1 // a policy may limit the replicas, and one is better than none
		err = w.Client.SubResource("scale").Patch(ctx, deployment, fromZero(replicas))
	}
	if err == nil || apierrors.IsConflict(err) || apierrors.IsInvalid(err) && w.hasReplicas(ctx, b.Function) {
		return nil
	}
	return fmt.Errorf("scaling the Deployment to %d: %w", replicas, err)
}

// checkStopped returns nil if the Deployment of a function that must not sleep has replicas, which
// will start a pod, and [ErrStopped] if it has none.
func (w *Waker) checkStopped(ctx context.Context, function types.NamespacedName) error {
	var d appsv1.Deployment
	err := w.Live.Get(ctx, function, &d)
	if apierrors.IsNotFound(err) || err == nil && workload.Replicas(&d) == 0 {
		return ErrStopped
	}
	return err
}

// hasReplicas reports whether the Deployment of a function has more than zero replicas.
func (w *Waker) hasReplicas(ctx context.Context, function types.NamespacedName) bool {
	var d appsv1.Deployment
	return w.Live.Get(ctx, function, &d) == nil && workload.Replicas(&d) > 0
}

// cannotCreatePod reports whether the Deployment of a function has the condition ReplicaFailure.
func (w *Waker) cannotCreatePod(ctx context.Context, function types.NamespacedName) bool {
	var d appsv1.Deployment
	return w.Live.Get(ctx, function, &d) == nil && d.Status.ObservedGeneration >= d.Generation &&
		slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		})
}
