package faults

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// meddling are changes of the objects of a running Function by users. At the end, the Function is
// as before, or matches its spec.
var meddling = []struct {
	name string
	do   func(*trial)
}{
	{"Service made a name of another", func(tr *trial) {
		tr.patch(tr.child("Service"), `{"spec":{"type":"ExternalName","externalName":"example.com","clusterIP":null,"clusterIPs":null}}`)
		tr.await(func() error {
			spec, _, err := unstructured.NestedStringMap(map[string]any{"s": picked(tr.child("Service"), "type", "clusterIP", "externalName")}, "s")
			if err == nil && (spec["type"] != "ClusterIP" || spec["clusterIP"] == "" || spec["externalName"] != "") {
				err = fmt.Errorf("the Service is %v", spec)
			}
			return err
		})
	}},
	{"Deployment paused during a change", func(tr *trial) {
		tr.patch(tr.child("Deployment"), `{"spec":{"paused":true}}`)
		tr.change(source(second))
		tr.await(func() error {
			if ready := tr.condition(v1beta1.ConditionReady); ready.Status == metav1.ConditionTrue || !strings.Contains(ready.Message, "paused") {
				return fmt.Errorf("Ready is %s: %s", ready.Status, ready.Message)
			}
			return nil
		})
		tr.change(source(first))
		tr.patch(tr.child("Deployment"), `{"spec":{"paused":null}}`)
	}},
	{"Deployment deleted without its pods", func(tr *trial) {
		deployment := tr.child("Deployment")
		sets := tr.sets()
		tr.must(world(tr.t).client.Delete(tr.t.Context(), deployment.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationOrphan)))
		tr.await(func() error {
			now := world(tr.t).witness.live("Deployment", tr.ns, subject)
			if now == nil || now.GetUID() == deployment.GetUID() {
				return errors.New("there is no new Deployment")
			}
			return nil
		})
		tr.awaitReady()
		if now := tr.sets(); now != sets {
			tr.t.Errorf("the pods were replaced: the ReplicaSets are %s, and were %s", now, sets)
		}
	}},
	{"everything deleted", func(tr *trial) {
		for _, object := range tr.objects() {
			tr.must(world(tr.t).client.Delete(tr.t.Context(), object, client.PropagationPolicy(metav1.DeletePropagationForeground)))
			tr.await(func() error {
				if now := world(tr.t).witness.live(object.GetKind(), tr.ns, object.GetName()); now != nil && now.GetUID() == object.GetUID() {
					return fmt.Errorf("%s %s is still there", object.GetKind(), object.GetName())
				}
				return nil
			})
		}
	}},
}

// TestPeople changes the objects of a Function as users do.
func TestPeople(t *testing.T) {
	enter(t)
	over := prepared(t, len(meddling), func(tr *trial) { tr.create() })
	defer func() { quiet(t, over) }()
	for i, tr := range over {
		t.Run(meddling[i].name, func(t *testing.T) {
			tr.t = t
			defer func() { table.note(t, "people", true, tr) }()
			want := tr.children()
			tr.begin()
			meddling[i].do(tr)
			tr.await(func() error { return tr.children().like(want) })
			tr.awaitReady()
			tr.done = time.Now()
			tr.untouched()
			tr.truth()
			world(t).unbroken(t)
		})
	}
}

// patch patches an object as a user.
func (tr *trial) patch(object *unstructured.Unstructured, patch string) {
	tr.t.Helper()
	changed := object.DeepCopy()
	tr.must(world(tr.t).client.Patch(tr.t.Context(), changed, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("somebody")))
	tr.seen(changed)
}

// picked returns those of some fields of a spec that are set.
func picked(object *unstructured.Unstructured, fields ...string) map[string]any {
	some := map[string]any{}
	for _, field := range fields {
		if value, ok, _ := unstructured.NestedString(object.Object, "spec", field); ok {
			some[field] = value
		}
	}
	return some
}

// sets returns the ReplicaSets that have pods, and how often they had none.
func (tr *trial) sets() string {
	tr.t.Helper()
	all := map[types.UID]int{}
	for _, v := range world(tr.t).witness.ofKind("ReplicaSet", tr.ns) {
		var set appsv1.ReplicaSet
		tr.must(runtime.DefaultUnstructuredConverter.FromUnstructured(v.Object, &set))
		if v.deleted || *set.Spec.Replicas == 0 {
			all[set.UID] += 1
		} else {
			all[set.UID] += 0
		}
	}
	return fmt.Sprint(all)
}
