package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// Adopt makes a Function the owner of its orphans. The error is a conflict if one of them has
// changed since it was read, or if the Function is being deleted or no longer exists. A Function that
// is being deleted cannot be the owner: with kubectl delete --cascade=orphan, the garbage collector
// removes the owner references of the objects, and would also remove the reference that Adopt adds.
func (a *Applier) Adopt(ctx context.Context, fn *v1beta1.Function, orphans []client.Object) error {
	now := &metav1.PartialObjectMetadata{}
	now.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("Function"))
	if err := a.Live.Get(ctx, client.ObjectKeyFromObject(fn), now); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Function: %w", err)
	}
	if now.UID != fn.UID || now.DeletionTimestamp != nil {
		return apierrors.NewConflict(v1beta1.GroupVersion.WithResource("functions").GroupResource(), fn.Name, errors.New("deleted or being deleted"))
	}
	var errs []error
	for _, orphan := range orphans {
		if err := a.adopt(ctx, fn, orphan); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("adopting %T %q: %w", orphan, orphan.GetName(), err))
		}
	}
	return errors.Join(errs...)
}

func (a *Applier) adopt(ctx context.Context, fn *v1beta1.Function, orphan client.Object) error {
	owner := metav1.NewControllerRef(fn, v1beta1.GroupVersion.WithKind("Function"))
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": orphan.GetResourceVersion()},
		{"op": "add", "path": "/metadata/ownerReferences", "value": []*metav1.OwnerReference{owner}},
	})
	if err != nil {
		return err
	}
	return a.Client.Patch(ctx, orphan, client.RawPatch(types.JSONPatchType, patch), client.DisableReadYourWritesConsistency)
}
