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
	"goless.io/operator/ssa"
)

// withoutValidation disables field validation in the API server, which would parse everything a
// second time.
var withoutValidation = client.FieldValidation(metav1.FieldValidationIgnore)

// ownByApply makes the operator own the fields through apply that it has written with a create or a
// patch. Otherwise the fields have two owners, and an apply that omits a field does not remove it.
func (a *Applier) ownByApply(ctx context.Context, live client.Object) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(desired.FieldOwner), desired.FieldOwner)
	if err != nil || patch == nil {
		return err
	}
	return a.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.DisableReadYourWritesConsistency)
}

// remove deletes the object with the UID that was read, and no other object of the same name. The
// error is a conflict if a Deployment has changed since it was read: its pods may serve now. With
// background propagation, the pods of a Job are deleted too.
func (a *Applier) remove(ctx context.Context, obj client.Object) error {
	uid, version := obj.GetUID(), obj.GetResourceVersion()
	conditions := client.Preconditions{UID: &uid}
	if _, ok := obj.(*appsv1.Deployment); ok {
		conditions.ResourceVersion = &version
	}
	err := a.Client.Delete(ctx, obj, conditions, client.PropagationPolicy(metav1.DeletePropagationBackground), client.DisableReadYourWritesConsistency)
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
func (a *Applier) replace(ctx context.Context, live client.Object, want ssa.Configuration, refused error) error {
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
		_, err := ssa.Create(ctx, a.Client, want, live, withoutValidation)
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
