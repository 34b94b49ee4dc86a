package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// takeovers are ways in which an object that the Function needs comes to belong to another
// owner. Each takes the object as it was, or would be, and replaces it by one with the same
// name.
var takeovers = []struct {
	name string
	do   func(*trial, *unstructured.Unstructured)
}{
	{"another controller", func(tr *trial, object *unstructured.Unstructured) {
		stranger := tr.decoy[0]
		tr.own(object, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: stranger.GetName(), UID: stranger.GetUID(), Controller: new(true)})
	}},
	{"no controller", func(tr *trial, object *unstructured.Unstructured) {
		ref := object.GetOwnerReferences()[0]
		ref.Controller, ref.BlockOwnerDeletion = nil, nil
		tr.own(object, ref)
	}},
	{"replaced", func(tr *trial, object *unstructured.Unstructured) {
		tr.must(world(tr.t).operator.Signal(syscall.SIGSTOP)) // so that it cannot be faster
		defer world(tr.t).operator.Signal(syscall.SIGCONT)    //nolint:errcheck // it would fail the rest of the test
		tr.must(world(tr.t).client.Delete(tr.t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
		tr.await(func() error {
			if world(tr.t).witness.live(object.GetKind(), tr.ns, object.GetName()) != nil {
				return fmt.Errorf("%s is still there", object.GetName())
			}
			return nil
		})
		tr.occupy(object)
	}},
}

// TestHijack changes the owner of an object that the Function needs. The operator reports it
// and does not write the object. When it is deleted, the Function gets its own again.
func TestHijack(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	for i, takeover := range takeovers {
		for k, kind := range []string{"Deployment", "Service", "ConfigMap"} {
			if !*full && k != i%3 {
				continue
			}
			t.Run(takeover.name+" of "+kind, func(t *testing.T) {
				tr := newTrial(t)
				over = append(over, tr)
				ready(tr)
				tr.settle()
				want := tr.whole()
				object := tr.child(kind)
				takeover.do(tr, object.DeepCopy())
				tr.refused(kind)
				tr.recover(t, "hijack", want)
			})
		}
	}
}

// TestOccupied creates objects with the names of the Function's objects before the Function.
func TestOccupied(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	model := newTrial(t)
	ready(model)
	model.settle()
	model.done = time.Now()
	over = append(over, model)
	for _, kind := range []string{"Service", "Deployment", "ConfigMap"} {
		if !*full && kind != "Service" {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			tr := newTrial(t)
			over = append(over, tr)
			object := model.child(kind).DeepCopy()
			object.SetNamespace(tr.ns)
			tr.occupy(object)
			tr.create()
			tr.refused(kind)
			tr.recover(t, "occupied", model.whole())
		})
	}
}

// TestLostOwners removes the owner of the Function's objects. The Function becomes their owner
// again.
func TestLostOwners(t *testing.T) {
	enter(t)
	tr := newTrial(t)
	ready(tr)
	tr.settle()
	want, objects := tr.whole(), tr.objects()
	tr.begin()
	defer func() { table.note(t, "lost owners", true, tr) }()
	for _, object := range objects {
		before := object.DeepCopy()
		object.SetOwnerReferences(nil)
		tr.must(world(t).client.Patch(t.Context(), object, client.MergeFrom(before), client.FieldOwner("somebody")))
	}
	tr.await(func() error { return tr.whole().like(want) })
	tr.done = time.Now()
	tr.same(objects)
	tr.untouched()
	quiet(t, []*trial{tr})
}

// TestOrphans deletes the Function without its objects, and creates it again. It becomes their
// owner, and they are not replaced.
func TestOrphans(t *testing.T) {
	enter(t)
	tr := newTrial(t)
	ready(tr)
	tr.settle()
	want, objects := tr.whole(), tr.objects()
	tr.collectorKnows(objects)
	tr.must(world(t).client.Delete(t.Context(), &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: subject}},
		client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	tr.deleted = true
	tr.await(func() error {
		if tr.fn() != nil {
			return errStillThere
		}
		return tr.children().like(state{})
	})
	tr.begin()
	defer func() { table.note(t, "orphans", true, tr) }()
	tr.create()
	tr.await(func() error { return tr.whole().like(want) })
	tr.done = time.Now()
	tr.same(objects)
	tr.untouched()
	quiet(t, []*trial{tr})
}

// collectorKnows waits until the garbage collector knows the objects. It would delete objects that
// it does not know yet when it orphans those of the Function: after an outage, the watch of one kind
// can be 20 s behind the watch of another. So it waits until the collector has deleted an object of
// each kind that was created later, and whose owner does not exist.
func (tr *trial) collectorKnows(objects []*unstructured.Unstructured) {
	tr.t.Helper()
	for _, object := range objects {
		later := blank(object.GetKind(), tr.ns, "later-"+object.GetName())
		later.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "missing", UID: "missing"}})
		tr.must(world(tr.t).client.Create(tr.t.Context(), later))
		tr.await(func() error {
			err := world(tr.t).client.Get(tr.t.Context(), client.ObjectKeyFromObject(later), later)
			if err == nil {
				return errStillThere
			}
			return client.IgnoreNotFound(err)
		})
	}
}

// same fails the test if an object was replaced.
func (tr *trial) same(objects []*unstructured.Unstructured) {
	tr.t.Helper()
	for _, object := range objects {
		if now := world(tr.t).witness.live(object.GetKind(), tr.ns, object.GetName()); now == nil || now.GetUID() != object.GetUID() {
			tr.t.Errorf("%s %s was replaced", object.GetKind(), object.GetName())
		}
	}
}

// child returns the only child of a kind.
func (tr *trial) child(kind string) *unstructured.Unstructured {
	tr.t.Helper()
	for _, object := range tr.objects() {
		if object.GetKind() == kind {
			return object
		}
	}
	tr.t.Fatalf("there is no %s", kind)
	return nil
}

// own sets the owners of an object, and records its state.
func (tr *trial) own(object *unstructured.Unstructured, refs ...metav1.OwnerReference) {
	tr.t.Helper()
	before := object.DeepCopy()
	object.SetOwnerReferences(refs)
	tr.must(world(tr.t).client.Patch(tr.t.Context(), object, client.MergeFrom(before), client.FieldOwner("somebody")))
	tr.keep(object.GetKind(), object.GetName())
}

// occupy creates an object with a name that the Function needs.
func (tr *trial) occupy(like *unstructured.Unstructured) {
	tr.t.Helper()
	object := blank(like.GetKind(), tr.ns, like.GetName())
	tr.must(world(tr.t).client.Create(tr.t.Context(), object, client.FieldOwner("somebody")))
	tr.keep(like.GetKind(), like.GetName())
}

// blank returns an object with another owner.
func blank(kind, ns, name string) client.Object {
	labels := map[string]string{"somebody": "else"}
	meta := metav1.ObjectMeta{Namespace: ns, Name: name, Labels: labels}
	switch kind {
	case "Deployment":
		return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "function", Image: "example.com/somebody"}}},
			},
		}}
	case "Service":
		return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Selector: labels, Ports: []corev1.ServicePort{{Name: "somebody", Port: 80}}}}
	case "NetworkPolicy":
		return &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: labels}}}
	}
	return &corev1.ConfigMap{ObjectMeta: meta}
}

// keep makes a decoy of an object that has another owner now.
func (tr *trial) keep(kind, name string) {
	tr.t.Helper()
	object := map[string]client.Object{"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "ConfigMap": &corev1.ConfigMap{}}[kind]
	tr.must(world(tr.t).client.Get(tr.t.Context(), types.NamespacedName{Namespace: tr.ns, Name: name}, object))
	tr.decoy = append(tr.decoy, object)
}

// refused waits until the status reports that the object does not belong to the Function, and
// then for a while in which the operator must not change it.
func (tr *trial) refused(kind string) {
	tr.t.Helper()
	reason := v1beta1.ReasonNotOwned
	if kind == "Service" {
		reason = v1beta1.ReasonServiceConflict
	}
	tr.await(tr.reason(reason))
	tr.settle()
	tr.untouched()
}

// recover deletes the foreign object, and waits until the Function has its own.
func (tr *trial) recover(t *testing.T, group string, want state) {
	t.Helper()
	last := tr.decoy[len(tr.decoy)-1]
	tr.decoy = tr.decoy[:len(tr.decoy)-1]
	defer func() { table.note(t, group, true, tr) }()
	tr.must(world(tr.t).client.Delete(t.Context(), last, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	tr.begin()
	tr.await(func() error { return tr.whole().like(want) })
	tr.done = time.Now()
	tr.untouched()
	world(tr.t).unbroken(t)
}
