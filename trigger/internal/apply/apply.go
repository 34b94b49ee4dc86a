// Package apply creates and updates the objects of a trigger with server-side apply, and deletes
// them. It changes only objects that belong to the trigger.
package apply

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/ssa"
	"goless.io/trigger/api/v1alpha1"
)

// FieldOwner is the field manager for the objects of triggers.
const FieldOwner = "goless-triggers"

// A Change is the difference between the desired state of an object and its current state.
type Change struct {
	want ssa.Configuration
	live client.Object
	same func() (bool, error)

	// owner must own live, otherwise live is not deleted; nil means the trigger.
	owner client.Object

	// how is the propagation policy of a deletion; empty means the default of the kind.
	how metav1.DeletionPropagation
}

// To returns the Change that updates live to match want. live has no UID if the object does
// not exist. extract returns the fields that a field manager has applied.
func To[A ssa.Configuration, T client.Object](want A, live T, extract func(T, string) (A, error)) Change {
	return Change{want: want, live: live, same: func() (bool, error) {
		applied, err := extract(live, FieldOwner)
		return err == nil && equality.Semantic.DeepEqual(applied, want), err
	}}
}

// Same reports whether the object is in its desired state.
func (c Change) Same() bool {
	same, err := c.same()
	return same && err == nil
}

// Gone returns the Change that deletes live if it belongs to the trigger. live has no
// UID if the object does not exist.
func Gone(live client.Object) Change { return Change{live: live} }

// GoneFrom returns the Change that deletes live and its dependents if it belongs to
// owner, which is an object of the trigger.
func GoneFrom(owner, live client.Object) Change {
	// By default, the API server orphans the pods of a Job.
	return Change{live: live, owner: owner, how: metav1.DeletePropagationBackground}
}

// GoneAfterPods returns the Change that deletes live in the foreground: it exists until
// its pods have terminated.
func GoneAfterPods(live client.Object) Change {
	return Change{live: live, how: metav1.DeletePropagationForeground}
}

// Owner returns an owner reference to a trigger.
func Owner(t v1alpha1.Trigger) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind(t.TriggerKind()).
		WithName(t.GetName()).WithUID(t.GetUID()).WithController(true)
}

// Labels returns the labels of the objects of a trigger.
func Labels(t v1alpha1.Trigger) map[string]string {
	return map[string]string{v1alpha1.TriggerLabel: t.GetName(), v1alpha1.KindLabel: t.TriggerKind()}
}

// A NotOwnedError means that an object exists but does not belong to the trigger.
type NotOwnedError struct {
	Kind, Name string

	// Owner is the controller of the object, or nil if it has none.
	Owner *metav1.OwnerReference
}

// Error suggests a deletion only if no controller would recreate the object.
func (e *NotOwnedError) Error() string {
	if e.Owner != nil {
		return fmt.Sprintf("%s %q belongs to %s %q and is not changed; rename the trigger", e.Kind, e.Name, e.Owner.Kind, e.Owner.Name)
	}
	return fmt.Sprintf("%s %q was not created for this trigger and is not changed; rename the trigger, or delete the %s if nothing needs it", e.Kind, e.Name, e.Kind)
}

// Make makes a change for a trigger. It writes nothing if the applied fields already have the
// desired values.
//
// If the object is deleted in the meantime, the error is a conflict and the trigger is reconciled
// again.
func (c Change) Make(ctx context.Context, w client.Client, live client.Reader, t v1alpha1.Trigger) error {
	if c.want == nil {
		return c.remove(ctx, w, t)
	}
	kind, name := *c.want.GetKind(), *c.want.GetName()
	if c.live.GetUID() == "" {
		if _, err := ssa.Create(ctx, w, c.want, c.live, client.FieldOwner(FieldOwner)); !apierrors.IsConflict(err) {
			return wrap(err, "creating", kind, name)
		}
		// An object without the labels is not in the cache.
		if err := live.Get(ctx, types.NamespacedName{Namespace: *c.want.GetNamespace(), Name: name}, c.live); err != nil {
			return wrap(err, "reading", kind, name)
		}
	}
	switch {
	case c.live.GetDeletionTimestamp() != nil, ofPredecessor(c.live, t):
		return nil // its deletion is an event that requeues the trigger
	case !metav1.IsControlledBy(c.live, t):
		return &NotOwnedError{Kind: kind, Name: name, Owner: metav1.GetControllerOf(c.live)}
	}
	if same, err := c.same(); same || err != nil {
		return wrap(err, "reading the fields of", kind, name)
	}
	_, err := ssa.Update(ctx, w, c.want, c.live, client.FieldOwner(FieldOwner))
	return wrap(err, "applying", kind, name)
}

// remove deletes the object with the observed UID, not another one of the same name.
func (c Change) remove(ctx context.Context, w client.Client, t v1alpha1.Trigger) error {
	uid, owner := c.live.GetUID(), c.owner
	if owner == nil {
		owner = t
	}
	if uid == "" || c.live.GetDeletionTimestamp() != nil || !metav1.IsControlledBy(c.live, owner) {
		return nil
	}
	options := []client.DeleteOption{client.Preconditions{UID: &uid}}
	if c.how != "" {
		options = append(options, client.PropagationPolicy(c.how))
	}
	if err := w.Delete(ctx, c.live, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing %T %q: %w", c.live, c.live.GetName(), err)
	}
	return nil
}

// ofPredecessor reports whether an object belongs to a deleted trigger of the same name. The
// garbage collector will delete it.
func ofPredecessor(obj client.Object, t v1alpha1.Trigger) bool {
	ref := metav1.GetControllerOf(obj)
	return ref != nil && ref.APIVersion == v1alpha1.GroupVersion.String() && ref.Kind == t.TriggerKind() && ref.Name == t.GetName() && ref.UID != t.GetUID()
}

func wrap(err error, doing, kind, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %q: %w", doing, kind, name, err)
}
