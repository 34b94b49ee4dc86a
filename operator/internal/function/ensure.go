package function

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// applyConfiguration is what the generated apply configurations have in common.
type applyConfiguration interface {
	runtime.ApplyConfiguration
	GetKind() *string
	GetName() *string
	GetNamespace() *string
}

// ensure makes an object of the Function what it should be, and writes nothing
// when it is so already: when the fields that we own have the values that we
// want. Fields of others are left to them. live is an empty object to read into.
//
// An object that exists and is not the Function's is an error and never
// written. That is why an apply names the version that it creates, or the UID
// that it changes: a forced apply alone takes over what it finds.
func ensure[A applyConfiguration, T client.Object](ctx context.Context, r *Reconciler, fn *v1beta1.Function, want A, live T, extract func(T, string) (A, error)) error {
	kind, key := *want.GetKind(), client.ObjectKey{Namespace: *want.GetNamespace(), Name: *want.GetName()}
	err := r.Client.Get(ctx, key, live)
	if apierrors.IsNotFound(err) {
		live.SetNamespace(key.Namespace)
		live.SetName(key.Name)
		if err = r.create(ctx, want, live); err == nil {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("creating %s %q: %w", kind, key.Name, err)
		}
		err = r.Live.Get(ctx, key, live) // without our label it is not in the cache
		_, _ = withoutData(live)         // as in the cache; it cannot fail
	}
	switch {
	case apierrors.IsNotFound(err):
		return r.createPlainly(ctx, want)
	case err != nil:
		return fmt.Errorf("reading %s %q: %w", kind, key.Name, err)
	case live.GetDeletionTimestamp() != nil, ofPredecessor(live, fn):
		return nil // its end is an event, and then it is created anew
	case !metav1.IsControlledBy(live, fn):
		return &notOwnedError{kind: kind, name: key.Name, controller: metav1.GetControllerOf(live)}
	}

	ownFields(live)
	if err := r.ownByApply(ctx, live); err != nil {
		return fmt.Errorf("taking ownership of the fields of %s %q: %w", kind, key.Name, err)
	}
	owned, err := extract(live, FieldOwner)
	if err != nil {
		return fmt.Errorf("reading the managed fields of %s %q: %w", kind, key.Name, err)
	}
	if equality.Semantic.DeepEqual(owned, asCached(want)) {
		return nil
	}
	err = r.apply(ctx, want, "uid", string(live.GetUID()), live)
	if apierrors.IsInvalid(err) {
		err = r.replace(ctx, live, want)
	}
	if err != nil {
		return fmt.Errorf("applying %s %q: %w", kind, key.Name, err)
	}
	return nil
}

// asCached is what the cache has of what we want.
func asCached[A any](want A) any {
	if c, ok := any(want).(*corev1ac.ConfigMapApplyConfiguration); ok {
		return digested(c)
	}
	return want
}

// replace is for what an apply cannot mend. It leaves entries of others in lists,
// and with somebody's port beside ours, say, a Service is invalid. What has no
// spec is an immutable ConfigMap with a content that is not ours. The labels come
// along, because without them no event would tell of the object any more.
func (r *Reconciler) replace(ctx context.Context, live client.Object, want any) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
	}
	spec, ok := content["spec"]
	if !ok {
		if err := r.remove(ctx, live); err != nil {
			return err
		}
		return r.create(ctx, want, live)
	}
	patch, err := json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": live.GetUID()},
		{"op": "add", "path": "/metadata/labels", "value": content["metadata"].(map[string]any)["labels"]},
		{"op": "replace", "path": "/spec", "value": spec},
	})
	if err != nil {
		return err
	}
	return r.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), unawaited)
}

// unawaited is for writes of which the cache may never hear, because it holds
// neither unstructured objects nor what lacks our label. A look into the cache
// that comes too early is made up for by r.Live, and by the event that follows.
const unawaited = client.DisableReadYourWritesConsistency

// ofPredecessor tells whether an object belongs to a deleted Function that had
// the same name. The garbage collector is about to remove it.
func ofPredecessor(obj client.Object, fn *v1beta1.Function) bool {
	ref := metav1.GetControllerOf(obj)
	return ref != nil && ref.APIVersion == v1beta1.GroupVersion.String() && ref.Kind == "Function" &&
		ref.Name == fn.Name && ref.UID != fn.UID
}

// create fails with a conflict when the object exists, because no object has the
// version that it names. The server does not compare versions where there is
// nothing to compare with: so does Kubernetes 1.36, and nothing says that it must.
// A plain create would own the fields in another way than an apply, those with
// defaults too, and take two more writes to set that right.
func (r *Reconciler) create(ctx context.Context, want any, named client.Object) error {
	return r.apply(ctx, want, "resourceVersion", versionOfNone, named)
}

// apply writes what we want to the object that is named, on condition that a field of its
// metadata has a value. Client.Apply cannot keep the server from parsing everything a
// second time, to warn of fields that are there twice.
func (r *Reconciler) apply(ctx context.Context, want any, field, value string, named client.Object) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
	}
	content["metadata"].(map[string]any)[field] = value
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	answer := named.DeepCopyObject().(client.Object) // is written to
	return r.Client.Patch(ctx, answer, client.RawPatch(types.ApplyYAMLPatchType, body), client.ForceOwnership, client.FieldValidation(metav1.FieldValidationIgnore))
}

// createPlainly is for a server that finds the version wrong even where there is no
// object. It sends the very fields of the apply configuration; a typed object would
// add its zero values to them.
func (r *Reconciler) createPlainly(ctx context.Context, want any) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: content}
	if err := r.Client.Create(ctx, object, unawaited); err != nil {
		return fmt.Errorf("creating %s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// versionOfNone is older than everything: the first revision of etcd is empty.
const versionOfNone = "1"

// ownByApply makes the fields that a create or replace wrote belong to our applies. They
// would be owned twice otherwise, and an apply that leaves one out could not
// remove it.
func (r *Reconciler) ownByApply(ctx context.Context, live client.Object) error {
	patch, err := csaupgrade.UpgradeManagedFieldsPatch(live, sets.New(FieldOwner), FieldOwner)
	if err != nil || patch == nil {
		return err
	}
	return r.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), unawaited)
}
