package faults

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// everything sets all fields of a spec.
func everything(spec *v1beta1.FunctionSpec) {
	spec.Service, spec.ServerPort = "other", 80
	spec.Replicas = new(int32(2))
	spec.Env = []v1beta1.EnvVar{{Name: "GREETING", Value: "hello"}, {Name: "EMPTY"}}
	spec.EnvFrom = []v1beta1.EnvFromSource{{Prefix: "P_", ConfigMapRef: &v1beta1.ObjectRef{Name: "settings", Optional: new(true)}}}
	spec.Resources = &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("64Mi"))}}
	spec.Timeout = &metav1.Duration{Duration: 90 * time.Second}
	spec.Concurrency = 7
	spec.Build = &v1beta1.BuildSpec{Timeout: &metav1.Duration{Duration: 2 * time.Minute}}
}

// TestDrift changes and removes every field that the operator owns in its objects, one at a
// time. Each is restored.
func TestDrift(t *testing.T) {
	enter(t)
	choose := random()
	tr := newTrial(t)
	tr.create(everything)
	tr.awaitReady()
	tr.settle()
	want := tr.whole()
	for _, child := range tr.objects() {
		paths, err := ownedPaths(child)
		tr.must(err)
		for _, p := range paths {
			if ownership(p.pointer) || !*full && choose.IntN(12) != 0 {
				continue
			}
			for _, op := range []string{"replace", "remove"} {
				t.Run(child.GetKind()+p.pointer+" "+op, func(t *testing.T) { tr.in(t).drift(child, op, p, want) })
			}
		}
	}
	tr.done = time.Now()
	tr.untouched()
	tr.truth()
	quiet(t, []*trial{tr})
}

// drift changes a field of an object, and waits until it is restored.
func (tr *trial) drift(child *unstructured.Unstructured, op string, p path, want state) {
	tr.t.Helper()
	if !tr.distort(child, op, p) {
		tr.t.Skipf("the API server rejects the operation %s", op)
	}
	tr.begin()
	defer func() { table.note(tr.t, "drift", true, tr) }()
	tr.restored(child)
	tr.done = time.Now()
	tr.cleaned(child, want)
}

// restored waits until the operator owns the same fields in an object, with the same values.
func (tr *trial) restored(before *unstructured.Unstructured) {
	tr.t.Helper()
	want, err := owned(before)
	tr.must(err)
	tr.await(func() error {
		now := world(tr.t).witness.live(before.GetKind(), tr.ns, before.GetName())
		if now == nil {
			return fmt.Errorf("there is no %s", before.GetKind())
		}
		got, err := owned(now)
		if err == nil && got != want {
			err = fmt.Errorf("(-want +got):\n%s", cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
		}
		return err
	})
}

// cleaned removes the rest of the change, such as a variable with another name, which has
// another owner now, and waits for the original state.
func (tr *trial) cleaned(before *unstructured.Unstructured, want state) {
	tr.t.Helper()
	now := world(tr.t).witness.live(before.GetKind(), tr.ns, before.GetName())
	if normal(now) != normal(before) && before.Object["spec"] != nil {
		patch, err := json.Marshal([]any{map[string]any{"op": "replace", "path": "/spec", "value": before.Object["spec"]}})
		tr.must(err)
		tr.must(world(tr.t).client.Patch(tr.t.Context(), now.DeepCopy(), client.RawPatch(types.JSONPatchType, patch), client.FieldOwner("somebody")))
	}
	tr.await(func() error { return tr.whole().like(want) })
}

// ownership reports whether a field determines the owner of the object. Without it the object
// no longer belongs to the Function, see TestHijack.
func ownership(pointer string) bool {
	return strings.HasPrefix(pointer, "/metadata/ownerReferences/") &&
		!strings.HasSuffix(pointer, "/blockOwnerDeletion") && !strings.HasSuffix(pointer, "/apiVersion") && !strings.HasSuffix(pointer, "/kind")
}

// objects returns the current children.
func (tr *trial) objects() (found []*unstructured.Unstructured) {
	for _, object := range world(tr.t).witness.all(tr.ns) {
		if ref := metav1.GetControllerOf(object); ref != nil && ref.Kind == "Function" {
			found = append(found, object)
		}
	}
	return found
}

// in returns the same trial for a subtest.
func (tr *trial) in(t *testing.T) *trial {
	copied := *tr
	copied.t = t
	return &copied
}

// distort changes a field of an object, and reports whether the object is different afterwards:
// the API server may reject the change, or set a default.
func (tr *trial) distort(object *unstructured.Unstructured, op string, p path) bool {
	tr.t.Helper()
	candidates := []any{nil}
	if op == "replace" {
		candidates = others(p.value)
	}
	before := normal(object)
	for _, candidate := range candidates {
		step := map[string]any{"op": op, "path": p.pointer}
		if op == "replace" {
			step["value"] = candidate
		}
		patch, err := json.Marshal([]any{step})
		tr.must(err)
		changed := object.DeepCopy()
		err = world(tr.t).client.Patch(tr.t.Context(), changed, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner("somebody"))
		if err == nil && normal(changed) != before {
			tr.seen(changed)
			return true
		}
		if err != nil && !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) && !apierrors.IsForbidden(err) {
			tr.must(err)
		}
	}
	return false
}

// seen waits until the witness has seen a version.
func (tr *trial) seen(object *unstructured.Unstructured) {
	tr.t.Helper()
	tr.await(func() error {
		for _, v := range world(tr.t).witness.of(object.GetKind(), tr.ns, object.GetName()) {
			if v.GetResourceVersion() == object.GetResourceVersion() {
				return nil
			}
		}
		return fmt.Errorf("version %s has not arrived", object.GetResourceVersion())
	})
}

// TestForeignFields sets fields that the operator does not own. They are kept, and the operator
// does not write because of them.
func TestForeignFields(t *testing.T) {
	enter(t)
	tr := newTrial(t)
	tr.create(everything)
	tr.awaitReady()
	tr.settle()
	since := time.Now()
	for _, change := range []struct{ kind, name, patch string }{
		{"Deployment", subject, `{"metadata":{"labels":{"somebody":"was-here"},"annotations":{"somebody":"was-here"}}}`},
		{"Deployment", subject, `{"spec":{"minReadySeconds":1,"progressDeadlineSeconds":700}}`},
		{"Deployment", subject, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`},
		{"Service", "other", `{"metadata":{"annotations":{"somebody":"was-here"}},"spec":{"sessionAffinity":"ClientIP"}}`},
	} {
		object := world(t).witness.live(change.kind, tr.ns, change.name).DeepCopy()
		tr.must(world(t).client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(change.patch)), client.FieldOwner("somebody")))
		tr.seen(object)
		want := normal(object)
		t.Run(change.kind+" "+change.patch, func(t *testing.T) {
			tr := tr.in(t)
			tr.begin()
			tr.awaitReady()
			tr.settle()
			tr.done = time.Now()
			table.note(t, "foreign fields", true, tr)
			got := normal(world(t).witness.live(change.kind, tr.ns, change.name))
			if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
				t.Errorf("the object has changed (-want +got):\n%s", diff)
			}
		})
	}
	for _, event := range world(t).audit.of(t, tr.ns) {
		if event.IsWrite() && event.ObjectRef.Resource != "functions" && event.RequestReceivedTimestamp.After(since) {
			t.Errorf("the operator wrote: %s", event.String())
		}
	}
	tr.done = time.Now()
	quiet(t, []*trial{tr})
}
