package apply

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/ssa"
)

// ensure creates or changes an object of the Function so that the fields that the operator owns
// have the values of want. It does not change other fields, and does not write if the fields
// already have these values. live is the object in the cache; it has no UID if it does not exist.
// The result is the object after the write, as far as it is known.
//
// An existing object that does not belong to the Function is an error and is never written. If the
// object is deleted in the meantime, the error is a conflict, and the Function is reconciled again.
func ensure[A ssa.Configuration, T client.Object](ctx context.Context, a *Applier, fn *v1beta1.Function, want A, live T, extract func(T, string) (A, error)) (T, error) {
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
		return live, nil // the event of its deletion triggers a reconcile, which creates it
	}
	if err := a.ownByApply(ctx, live); err != nil {
		return live, fmt.Errorf("taking ownership of the fields of %s %q: %w", kind, name, err)
	}
	applied, err := ssa.Update(ctx, a.Client, want, live, withoutValidation)
	if apierrors.IsInvalid(err) {
		applied, err = live, a.replace(ctx, live, want, err)
	}
	if err != nil {
		return live, fmt.Errorf("applying %s %q: %w", kind, name, err)
	}
	return applied.(T), nil
}

// createOrFind creates an object that is not in the cache. An existing object without the label
// goless.io/function is not in the cache either, and is read from the API server. like is an empty
// object of the same type.
func (a *Applier) createOrFind(ctx context.Context, want ssa.Configuration, like client.Object) (object client.Object, created bool, err error) {
	object = like.DeepCopyObject().(client.Object)
	object.SetNamespace(*want.GetNamespace())
	object.SetName(*want.GetName())
	answer, err := ssa.Create(ctx, a.Client, want, object, withoutValidation)
	if err == nil {
		return answer, true, nil
	}
	if !apierrors.IsConflict(err) {
		return object, false, fmt.Errorf("creating %s %q: %w", *want.GetKind(), *want.GetName(), err)
	}
	switch found := a.Live.Get(ctx, client.ObjectKeyFromObject(object), object); {
	case apierrors.IsNotFound(found): // it has been deleted in the meantime
		return object, false, err
	case found != nil:
		return object, false, fmt.Errorf("reading %s %q: %w", *want.GetKind(), *want.GetName(), found)
	}
	return object, false, nil
}

// isApplied reports whether the fields that the operator owns have the values of want. An object
// that does not belong to the Function is an error.
func isApplied[A ssa.Configuration, T client.Object](fn *v1beta1.Function, want A, live T, extract func(T, string) (A, error)) (bool, error) {
	switch {
	case live.GetUID() == "", live.GetDeletionTimestamp() != nil, ownedByDeletedNamesake(live, fn):
		return false, nil
	case !metav1.IsControlledBy(live, fn):
		return false, &notOwnedError{kind: *want.GetKind(), namespace: live.GetNamespace(), name: live.GetName(), owner: ownerOf(live)}
	}
	owned, err := extract(live, desired.FieldOwner)
	if err != nil {
		return false, fmt.Errorf("reading the managed fields of %s %q: %w", *want.GetKind(), live.GetName(), err)
	}
	return equality.Semantic.DeepEqual(owned, want) && !ownedByUpdate(live), nil
}

// ownedByUpdate reports whether the operator owns fields through a create or a patch. After
// replace, the next apply may run before the cache contains the replaced object, and without
// ownByApply.
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

// foreign returns an object if it exists and does not belong to the Function, and nil otherwise.
func foreign[T any, P interface {
	*T
	client.Object
}](fn *v1beta1.Function, obj P) P {
	if obj == nil || obj.GetUID() == "" || metav1.IsControlledBy(obj, fn) {
		return nil
	}
	return obj
}

// ownerOf returns the controller of an object, or else an owner; nil if it has none.
func ownerOf(obj client.Object) *metav1.OwnerReference {
	if controller := metav1.GetControllerOf(obj); controller != nil {
		return controller
	}
	for _, owner := range obj.GetOwnerReferences() {
		return &owner
	}
	return nil
}

// ownedByDeletedNamesake reports whether an object belongs to a deleted Function of the same name.
// The garbage collector will delete it.
func ownedByDeletedNamesake(obj client.Object, fn *v1beta1.Function) bool {
	ref := metav1.GetControllerOfNoCopy(obj)
	return observe.OfAFunction(obj) && ref.Name == fn.Name && ref.UID != fn.UID
}
