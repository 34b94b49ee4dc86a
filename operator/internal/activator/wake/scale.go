package wake

import (
	"context"
	"errors"
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

// fromZero makes one replica of none. A Scale with no replicas leaves the field out, which
// JSON Patch tests as null. Where there are some already, the test fails.
var fromZero = client.RawPatch(types.JSONPatchType, []byte(
	`[{"op":"test","path":"/spec/replicas","value":null},{"op":"add","path":"/spec/replicas","value":1}]`))

// scale gives the function one replica if it has none, unless somebody has stopped it meanwhile.
// That somebody else was faster is no error, but that a policy forbids one replica is.
func (w *Waker) scale(ctx context.Context, t target.Target) error {
	var service corev1.Service
	if err := w.Client.Get(ctx, t.Service, &service); client.IgnoreNotFound(err) != nil {
		return err
	}
	if now, _ := target.Of(&service); !now.MaySleep() {
		return errors.New("the function may no longer sleep, or was stopped: nothing is scaled")
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: t.Function.Namespace, Name: t.Function.Name}}
	err := w.Client.SubResource("scale").Patch(ctx, deployment, fromZero)
	if err == nil || apierrors.IsConflict(err) || apierrors.IsInvalid(err) && w.hasReplicas(ctx, t.Function) {
		return nil
	}
	return fmt.Errorf("scaling the Deployment to 1: %w", err)
}

// hasReplicas tells whether the Deployment of a function is scaled to more than zero.
func (w *Waker) hasReplicas(ctx context.Context, function types.NamespacedName) bool {
	var d appsv1.Deployment
	return w.Live.Get(ctx, function, &d) == nil && workload.Replicas(&d) > 0
}

// refused tells whether Kubernetes cannot create a pod of the function. Pods that are about to
// end may be what a quota has no room for, so this is not asked while there are some.
func (w *Waker) refused(ctx context.Context, function types.NamespacedName) bool {
	var d appsv1.Deployment
	return w.Live.Get(ctx, function, &d) == nil && d.Status.ObservedGeneration >= d.Generation &&
		slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
			return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue
		})
}
