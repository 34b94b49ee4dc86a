package apply

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/workload"
)

// create creates an object with an apply that sends a resource version which no object has. It
// fails with a conflict if the object exists; if it does not exist, Kubernetes does not compare
// versions. A create request would make the operator own the fields through an update, including
// defaults, and ownByApply would need two more writes to change that.
func (a *Applier) create(ctx context.Context, want any, named client.Object) (client.Object, error) {
	return a.apply(ctx, want, "resourceVersion", noVersion, named)
}

// apply applies want on condition that a field of the object's metadata has a value, and returns
// the object after the write. named identifies the object and is not changed. Unlike Client.Apply,
// it disables field validation in the API server, which would parse everything a second time.
func (a *Applier) apply(ctx context.Context, want any, field, value string, named client.Object) (client.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return nil, err
	}
	content["metadata"].(map[string]any)[field] = value
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	answer := named.DeepCopyObject().(client.Object)
	return answer, a.Client.Patch(ctx, answer, client.RawPatch(types.ApplyYAMLPatchType, body), client.ForceOwnership, client.FieldValidation(metav1.FieldValidationIgnore))
}

// noVersion is a resource version that no object has: the first revision of etcd is empty.
const noVersion = "1"

// ownByApply makes the operator own the fields through apply that it has written with a create or a
// patch. Otherwise the fields have two owners, and an apply that omits a field does not remove it.
func (a *Applier) ownByApply(ctx context.Context, live client.Object) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(desired.FieldOwner), desired.FieldOwner)
	if err != nil || patch == nil {
		return err
	}
	return a.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.DisableReadYourWritesConsistency)
}

// remove deletes the object with the UID that was read, and no other object of the same name.
func (a *Applier) remove(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := a.Client.Delete(ctx, obj, client.Preconditions{UID: &uid}, client.DisableReadYourWritesConsistency)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing %T %q: %w", obj, obj.GetName(), err)
	}
	return nil
}

// replace replaces the whole spec of an object that an apply would make invalid: an apply keeps the
// list entries of other field managers, such as an additional port of a Service. A Deployment keeps
// its number of replicas if the operator does not set it. The labels are replaced too, because the
// operator watches objects by their label. The error is a conflict if the object has changed since
// it was read.
//
// A ConfigMap has no spec. It is deleted and created again if it is immutable and another client
// has written its content. For any other cause the error of the apply is returned: a policy that
// rejects the apply would reject the new ConfigMap too, and the source would be lost.
func (a *Applier) replace(ctx context.Context, live client.Object, want any, refused error) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
	}
	spec, ok := content["spec"]
	if !ok {
		if !apierrors.HasStatusCause(refused, metav1.CauseType(field.ErrorTypeForbidden)) {
			return refused
		}
		if err := a.remove(ctx, live); err != nil {
			return err
		}
		_, err := a.create(ctx, want, live)
		return err
	}
	if d, ok := live.(*appsv1.Deployment); ok && spec.(map[string]any)["replicas"] == nil {
		spec.(map[string]any)["replicas"] = workload.Replicas(d)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/metadata/resourceVersion", "value": live.GetResourceVersion()},
		{"op": "add", "path": "/metadata/labels", "value": content["metadata"].(map[string]any)["labels"]},
		{"op": "replace", "path": "/spec", "value": spec},
	})
	if err != nil {
		return err
	}
	return a.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.DisableReadYourWritesConsistency)
}

// scale sets the number of replicas of the Function's own Deployment, under a field manager of its
// own. The error is a conflict if the Deployment has changed since it was read: another client may
// have scaled it.
func (a *Applier) scale(ctx context.Context, live *appsv1.Deployment, replicas *int32) error {
	if replicas == nil {
		return nil
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": autoscalingv1.SchemeGroupVersion.String(),
		"kind":       "Scale",
		"metadata":   map[string]any{"name": live.Name, "namespace": live.Namespace, "resourceVersion": live.ResourceVersion},
		"spec":       map[string]any{"replicas": *replicas},
	})
	if err != nil {
		return err
	}
	err = a.Client.SubResource("scale").Patch(ctx, live, client.RawPatch(types.ApplyYAMLPatchType, body),
		client.WithSubResourceBody(&autoscalingv1.Scale{}), client.FieldOwner(desired.ReplicasOwner), client.ForceOwnership, client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("scaling Deployment %q to %d replicas: %w", live.Name, *replicas, err)
	}
	return nil
}
