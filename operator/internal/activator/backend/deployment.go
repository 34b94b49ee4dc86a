package backend

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Deployment returns the Deployment of a function, or nil if it does not exist or the Function does
// not control it. The reader reads from the API server, because a cache of all Deployments would
// take too much memory.
func Deployment(ctx context.Context, live client.Reader, b Backend) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	err := live.Get(ctx, b.Function, &d)
	if owner := metav1.GetControllerOf(&d); err != nil || owner == nil || owner.UID != b.FunctionUID {
		return nil, client.IgnoreNotFound(err)
	}
	return &d, nil
}

// Scale sets the number of replicas of a Deployment. It returns a conflict if the Deployment has
// changed since it was read.
func Scale(ctx context.Context, c client.Client, d *appsv1.Deployment, replicas int32) error {
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"replicas":%d}}`, d.ResourceVersion, replicas)
	if err := c.SubResource("scale").Patch(ctx, d, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("scaling the Deployment to %d: %w", replicas, err)
	}
	return nil
}
