package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/workload"
)

// applyConfiguration is the interface of the generated apply configurations.
type applyConfiguration interface {
	runtime.ApplyConfiguration
	GetKind() *string
	GetName() *string
	GetNamespace() *string
}

// ensure creates or changes an object of the Function so that the fields that the operator
// owns have the values of want, and leaves other fields alone. It writes nothing when they
// have them already. live is the object in the cache; without a UID there is none. The
// result is the object after that, as far as it is known.
//
// An object that exists and does not belong to the Function is an error, and is never
// written. A forced apply would take it over, so every apply names the UID of the object
// that it changes, or the resource version of the one that it creates. Where the object has
// been deleted meanwhile the error is a conflict, and the Function is reconciled again.
func ensure[A applyConfiguration, T client.Object](ctx context.Context, a *Applier, fn *v1beta1.Function, want A, live T, extract func(T, string) (A, error)) (T, error) {
	kind, name := *want.GetKind(), *want.GetName()
	if live.GetUID() == "" {
		found, created, err := a.createOrFind(ctx, want, live)
		live = found.(T)
		if created || err != nil {
			return live, err
		}
	}
	same, err := isApplied(fn, want, live, extract)
	switch {
	case same || err != nil:
		return live, err
	case live.GetDeletionTimestamp() != nil, ownedByDeletedNamesake(live, fn):
		return live, nil // its deletion is an event, after which it is created
	}
	if err := a.ownByApply(ctx, live); err != nil {
		return live, fmt.Errorf("taking ownership of the fields of %s %q: %w", kind, name, err)
	}
	applied, err := a.apply(ctx, want, "uid", string(live.GetUID()), live)
	if apierrors.IsInvalid(err) {
		applied, err = live, a.replace(ctx, live, want, err)
	}
	if err != nil {
		return live, fmt.Errorf("applying %s %q: %w", kind, name, err)
	}
	return applied.(T), nil
}

// createOrFind creates an object that is not in the cache. One that exists without our label
// is not in the cache either, and is read from the API server. like is an empty object of
// the same type.
func (a *Applier) createOrFind(ctx context.Context, want applyConfiguration, like client.Object) (object client.Object, created bool, err error) {
	object = like.DeepCopyObject().(client.Object)
	object.SetNamespace(*want.GetNamespace())
	object.SetName(*want.GetName())
	answer, err := a.create(ctx, want, object)
	if err == nil {
		return answer, true, nil
	}
	if !apierrors.IsConflict(err) {
		return object, false, fmt.Errorf("creating %s %q: %w", *want.GetKind(), *want.GetName(), err)
	}
	switch found := a.Live.Get(ctx, client.ObjectKeyFromObject(object), object); {
	case apierrors.IsNotFound(found): // it has been deleted meanwhile
		return object, false, err
	case found != nil:
		return object, false, fmt.Errorf("reading %s %q: %w", *want.GetKind(), *want.GetName(), found)
	}
	return object, false, nil
}

// isApplied tells whether the fields that the operator owns have the values of want. An
// object that does not belong to the Function is an error.
func isApplied[A applyConfiguration, T client.Object](fn *v1beta1.Function, want A, live T, extract func(T, string) (A, error)) (bool, error) {
	switch {
	case live.GetUID() == "", live.GetDeletionTimestamp() != nil, ownedByDeletedNamesake(live, fn):
		return false, nil
	case !metav1.IsControlledBy(live, fn):
		return false, &notOwnedError{kind: *want.GetKind(), name: live.GetName(), controller: metav1.GetControllerOf(live)}
	}
	owned, err := extract(live, desired.FieldOwner)
	if err != nil {
		return false, fmt.Errorf("reading the managed fields of %s %q: %w", *want.GetKind(), live.GetName(), err)
	}
	return equality.Semantic.DeepEqual(owned, want) && !ownedByUpdate(live), nil
}

// ownedByUpdate tells whether the operator owns fields by a create or a patch. After replace,
// the next apply may have been made before the cache had that, and without ownByApply.
func ownedByUpdate(live client.Object) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == desired.FieldOwner && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
	})
}

// own returns an object if it belongs to the Function, and nil otherwise.
func own[T any, P interface {
	*T
	client.Object
}](fn *v1beta1.Function, obj P) P {
	if obj == nil || !metav1.IsControlledBy(obj, fn) {
		return nil
	}
	return obj
}

// replace replaces the whole spec of an object that an apply leaves invalid: an apply keeps
// the entries of others in lists, so that a Service would have somebody's port beside ours,
// for example. A Deployment keeps the number of its replicas where that is not for the operator
// to say. A ConfigMap, which has no spec, is deleted and created if it is immutable and somebody
// else has written its content, and the error of the apply is returned if it has another cause: a
// policy that refuses the apply would refuse the new one too, and the source would be lost. The
// labels are replaced too, because the operator watches objects by their label. The error is a
// conflict if the object has changed since it was seen.
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

// ownedByDeletedNamesake tells whether an object belongs to a deleted Function of the same name. The
// garbage collector is about to delete it.
func ownedByDeletedNamesake(obj client.Object, fn *v1beta1.Function) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return observe.OfAFunction(obj) && ref.Name == fn.Name && ref.UID != fn.UID
}

// create creates an object by an apply that names a resource version which no object has.
// It fails with a conflict when the object exists. Where there is no object, Kubernetes does
// not compare versions. A create request would make the operator own the fields, defaults
// included, as an update does, and ownByApply would take two more writes to change that.
func (a *Applier) create(ctx context.Context, want any, named client.Object) (client.Object, error) {
	return a.apply(ctx, want, "resourceVersion", noVersion, named)
}

// apply applies want on condition that a field of the object's metadata has a value, and
// returns the object after that. named is the object to apply to, and is not changed.
// Unlike Client.Apply it keeps the server from validating the fields, for which that would
// parse everything a second time.
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

// ownByApply makes the operator own by apply the fields that it has written by a create or a
// patch. They would have two owners otherwise, and an apply that leaves a field out would not
// remove it.
func (a *Applier) ownByApply(ctx context.Context, live client.Object) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(desired.FieldOwner), desired.FieldOwner)
	if err != nil || patch == nil {
		return err
	}
	return a.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.DisableReadYourWritesConsistency)
}

// remove deletes the object with the UID that was seen, and not another of the same name.
func (a *Applier) remove(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := a.Client.Delete(ctx, obj, client.Preconditions{UID: &uid}, client.DisableReadYourWritesConsistency)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing %T %q: %w", obj, obj.GetName(), err)
	}
	return nil
}
