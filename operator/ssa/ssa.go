// Package ssa creates and changes objects with server-side apply (SSA), on the condition that the
// object does not exist yet (Create) or still has the same UID (Update). The operator and the
// triggers use it. An apply without such a condition would take over an object of another owner, or
// create an object again that was deleted in the meantime. The caller sets the field manager, in
// the client or in the options.
package ssa

import (
	"context"
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Configuration is the interface of the apply configurations of client-go.
type Configuration interface {
	runtime.ApplyConfiguration
	GetKind() *string
	GetName() *string
	GetNamespace() *string
}

// noVersion is a resource version that no object has: the first revision of etcd is empty.
const noVersion = "1"

// Create creates an object and returns it as it was created. The error is a conflict if an object
// of that name exists. The parameter like is any object of the same type; Create does not change
// it.
//
// The apply sends a resource version that no object has. If the object exists, that is a conflict.
// If it does not exist, Kubernetes ignores the version. A create request would record its fields,
// including defaulted ones, in managedFields with the operation Update. A later apply has the
// operation Apply, and could not remove these fields.
func Create(ctx context.Context, w client.Client, want Configuration, like client.Object, options ...client.PatchOption) (client.Object, error) {
	return apply(ctx, w, want, like, "resourceVersion", noVersion, options)
}

// Update applies want to the object live and returns the object after the write. The error is a
// conflict if the object with the UID of live was deleted. Update does not change live.
func Update(ctx context.Context, w client.Client, want Configuration, live client.Object, options ...client.PatchOption) (client.Object, error) {
	return apply(ctx, w, want, live, "uid", string(live.GetUID()), options)
}

// apply applies want on condition that a field of the object's metadata has a value. It forces the
// ownership of the fields.
func apply(ctx context.Context, w client.Client, want Configuration, like client.Object, field, value string, options []client.PatchOption) (client.Object, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return nil, err
	}
	content["metadata"].(map[string]any)[field] = value
	body, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	applied := like.DeepCopyObject().(client.Object)
	applied.SetNamespace(*want.GetNamespace())
	applied.SetName(*want.GetName())
	return applied, w.Patch(ctx, applied, client.RawPatch(types.ApplyYAMLPatchType, body), append([]client.PatchOption{client.ForceOwnership}, options...)...)
}
