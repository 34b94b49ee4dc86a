// Package apply carries out what was decided for a trigger, by server-side apply. It decides
// nothing but whether an object belongs to the trigger, and so may be written.
package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/trigger/api/v1alpha1"
)

// FieldOwner owns the fields of what belongs to triggers.
const FieldOwner = "goless-triggers"

// noVersion is a resource version that no object has: the first revision of etcd is empty.
const noVersion = "1"

// configuration is the interface of the generated apply configurations.
type configuration interface {
	runtime.ApplyConfiguration
	GetKind() *string
	GetName() *string
	GetNamespace() *string
}

// A Change is an object that a trigger shall have, beside the one that there is.
type Change struct {
	want configuration
	live client.Object
	same func() (bool, error)

	// owner must own live for it to be removed; nil for the trigger.
	owner client.Object

	// how live is removed; empty for the default of its kind.
	how metav1.DeletionPropagation
}

// To is the change of live, which has no UID where there is no such object, to want. extract
// returns the fields of an object that an owner has applied.
func To[A configuration, T client.Object](want A, live T, extract func(T, string) (A, error)) Change {
	return Change{want: want, live: live, same: func() (bool, error) {
		applied, err := extract(live, FieldOwner)
		return err == nil && equality.Semantic.DeepEqual(applied, want), err
	}}
}

// Same tells whether there is nothing to change.
func (c Change) Same() bool {
	same, err := c.same()
	return same && err == nil
}

// Gone is the removal of live, where it belongs to the trigger; without a UID there is none.
func Gone(live client.Object) Change { return Change{live: live} }

// GoneFrom is the removal of live, where it belongs to owner, an object of the trigger. What live
// owns is deleted with it.
func GoneFrom(owner, live client.Object) Change {
	// The API server's default for Jobs is to orphan their pods.
	return Change{live: live, owner: owner, how: metav1.DeletePropagationBackground}
}

// GoneAfterPods is the removal of live, which exists until its pods have ended.
func GoneAfterPods(live client.Object) Change {
	return Change{live: live, how: metav1.DeletePropagationForeground}
}

// Owner is the owner reference to a trigger.
func Owner(t v1alpha1.Trigger) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind(t.TriggerKind()).
		WithName(t.GetName()).WithUID(t.GetUID()).WithController(true)
}

// Labels are those of what belongs to a trigger.
func Labels(t v1alpha1.Trigger) map[string]string {
	return map[string]string{v1alpha1.TriggerLabel: t.GetName(), v1alpha1.KindLabel: t.TriggerKind()}
}

// A NotOwnedError says that an object exists which is not the trigger's.
type NotOwnedError struct {
	Kind, Name string

	// Owner controls the object; nil if it has no controller.
	Owner *metav1.OwnerReference
}

// Error advises to delete only what no controller would create again.
func (e *NotOwnedError) Error() string {
	if e.Owner != nil {
		return fmt.Sprintf("%s %q belongs to %s %q and is not changed; rename the trigger", e.Kind, e.Name, e.Owner.Kind, e.Owner.Name)
	}
	return fmt.Sprintf("%s %q was not created for this trigger and is not changed; rename the trigger, or delete the %s if nothing needs it", e.Kind, e.Name, e.Kind)
}

// Make makes a change for a trigger. It writes nothing where the fields that were applied
// have the wanted values already.
//
// A forced apply would take over what is somebody else's. So each names the UID of the object
// that it changes, or the resource version of the one that it creates; where the object has
// come or gone meanwhile the error is a conflict, and the trigger is looked at again.
func (c Change) Make(ctx context.Context, w client.Client, live client.Reader, t v1alpha1.Trigger) error {
	if c.want == nil {
		return c.remove(ctx, w, t)
	}
	kind, name := *c.want.GetKind(), *c.want.GetName()
	if c.live.GetUID() == "" {
		if err := c.apply(ctx, w, "resourceVersion", noVersion); !apierrors.IsConflict(err) {
			return wrap(err, "creating", kind, name)
		}
		// One without our labels is not in the cache.
		if err := live.Get(ctx, types.NamespacedName{Namespace: *c.want.GetNamespace(), Name: name}, c.live); err != nil {
			return wrap(err, "reading", kind, name)
		}
	}
	switch {
	case c.live.GetDeletionTimestamp() != nil, ofPredecessor(c.live, t):
		return nil // its deletion is an event, after which it is created
	case !metav1.IsControlledBy(c.live, t):
		return &NotOwnedError{Kind: kind, Name: name, Owner: metav1.GetControllerOf(c.live)}
	}
	if same, err := c.same(); same || err != nil {
		return wrap(err, "reading the fields of", kind, name)
	}
	return wrap(c.apply(ctx, w, "uid", string(c.live.GetUID())), "applying", kind, name)
}

// apply applies the object on condition that a field of its metadata has a value.
func (c Change) apply(ctx context.Context, w client.Client, field, value string) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c.want)
	if err != nil {
		return err
	}
	content["metadata"].(map[string]any)[field] = value
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	answer := c.live.DeepCopyObject().(client.Object)
	answer.SetNamespace(*c.want.GetNamespace())
	answer.SetName(*c.want.GetName())
	return w.Patch(ctx, answer, client.RawPatch(types.ApplyYAMLPatchType, body), client.ForceOwnership, client.FieldOwner(FieldOwner))
}

// remove deletes the object with the UID that was seen, and not another of the same name.
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

// ofPredecessor tells whether an object belongs to a deleted trigger of the same name. The
// garbage collector is about to delete it.
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
