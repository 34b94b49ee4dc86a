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
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
)

// observe collects what the cluster shows of a Function. Labels find objects,
// owner references decide whether they count: anybody can set a label.
func (r *Reconciler) observe(ctx context.Context, fn *v1beta1.Function, seen *status.Seen) error {
	var (
		services    corev1.ServiceList
		deployments appsv1.DeploymentList
		replicaSets appsv1.ReplicaSetList
		pods        corev1.PodList
	)
	var errs []error
	for _, list := range []client.ObjectList{&services, &deployments, &replicaSets, &pods} {
		errs = append(errs, r.list(ctx, fn, list))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for _, service := range owned(services.Items, fn.UID) {
		if seen.Service == nil || service.Name == fn.ServiceName() {
			seen.Service = &service
		}
	}
	for _, deployment := range owned(deployments.Items, fn.UID) {
		if deployment.Name != fn.Name {
			continue
		}
		seen.Deployment = &deployment
		seen.ReplicaSets = owned(replicaSets.Items, deployment.UID)
	}
	for _, set := range seen.ReplicaSets {
		seen.Pods = append(seen.Pods, owned(pods.Items, set.UID)...)
	}
	return nil
}

// list reads from the cache what carries the Function's label.
func (r *Reconciler) list(ctx context.Context, fn *v1beta1.Function, into client.ObjectList) error {
	if err := r.Client.List(ctx, into, client.InNamespace(fn.Namespace), client.MatchingLabels(desired.Selector(fn.Name))); err != nil {
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
