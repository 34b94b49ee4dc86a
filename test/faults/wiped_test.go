package faults

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// TestWiped removes the managed fields of objects, as a restore from a backup does. What the
// Function no longer needs is removed all the same.
func TestWiped(t *testing.T) {
	enter(t)
	wiped(t, "before a change", func(wipe, change func()) {
		wipe()
		time.Sleep(calm) // in which the operator may do something about it
		change()
	})
	wiped(t, "during a change", func(wipe, change func()) {
		world(t).operator.Kill() // so that the next one sees both at once
		wipe()
		change()
		if err := world(t).operator.Start(); err != nil {
			t.Fatal(err)
		}
	})
}

// wiped does that to a Function for each kind of object, to all at the same time.
func wiped(t *testing.T, when string, do func(wipe, change func())) {
	t.Helper()
	kinds := []string{"Deployment", "Service", "ConfigMap", "PodDisruptionBudget", "NetworkPolicy"}
	over := prepared(t, len(kinds), func(tr *trial) { tr.create(everything) })
	defer func() { quiet(t, over) }()
	do(func() {
		for i, tr := range over {
			object := tr.child(kinds[i]).DeepCopy()
			tr.must(world(t).client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`))))
		}
	}, func() {
		for _, tr := range over {
			tr.change(func(spec *v1beta1.FunctionSpec) {
				*spec = v1beta1.FunctionSpec{Function: spec.Function, Service: spec.Service, Replicas: spec.Replicas, RevisionHistoryLimit: spec.RevisionHistoryLimit}
			})
			tr.begin()
		}
	})
	for i, tr := range over {
		t.Run(kinds[i]+" "+when, func(t *testing.T) {
			tr.t = t
			defer func() { table.note(t, "managed fields wiped", true, tr) }()
			tr.awaitReady()
			want := scratchOf(t, tr.fn().Spec)
			tr.await(func() error { return tr.children().like(want) })
			tr.done = time.Now()
			tr.oracles()
		})
	}
}

// prepared returns cases with ready Functions.
func prepared(t *testing.T, n int, create func(*trial)) (all []*trial) {
	t.Helper()
	for range n {
		tr := newTrial(t)
		create(tr)
		all = append(all, tr)
	}
	for _, tr := range all {
		tr.awaitReady()
	}
	calmed(t, all)
	return all
}

// lies are false statuses of a Function.
var lies = []struct{ name, patch string }{
	{"wiped", `{"status":null}`},
	{"empty", `{"status":{"conditions":[],"latestRevision":"","readyRevision":"","selector":"","url":"","build":null}}`},
	{"of another generation", `{"status":{"observedGeneration":77}}`},
	{"not ready", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Lie","message":"","lastTransitionTime":"2000-01-01T00:00:00Z"}]}}`},
	{"other revision", `{"status":{"latestRevision":"0000000000","readyRevision":"0000000000"}}`},
	{"other replicas", `{"status":{"replicas":7,"readyReplicas":7}}`},
}

// TestLies writes false statuses, while the operator runs and while it does not. The status is
// corrected, and running pods do not change.
func TestLies(t *testing.T) {
	enter(t)
	over := prepared(t, len(lies), func(tr *trial) { tr.create() })
	defer func() { quiet(t, over) }()
	var wants []state
	var uids []string
	for i, tr := range over {
		wants, uids = append(wants, tr.whole()), append(uids, tr.uids())
		fn := tr.fn()
		tr.must(world(t).client.Status().Patch(t.Context(), fn, client.RawPatch(types.MergePatchType, []byte(lies[i].patch))))
		tr.known(fn)
		tr.begin()
	}
	world(t).restart() // statuses are not watched: at the next look at the latest
	for i, tr := range over {
		t.Run(lies[i].name, func(t *testing.T) {
			tr.t = t
			defer func() { table.note(t, "status falsified", true, tr) }()
			tr.await(func() error { return tr.whole().like(wants[i]) })
			tr.done = time.Now()
			if now := tr.uids(); now != uids[i] {
				t.Errorf("objects were recreated: they are %s, and were %s", now, uids[i])
			}
			tr.untouched()
			world(t).unbroken(t)
		})
	}
}

// uids identifies the children.
func (tr *trial) uids() string {
	all := map[string]types.UID{}
	for _, object := range tr.objects() {
		all[object.GetKind()+"/"+object.GetName()] = object.GetUID()
	}
	return fmt.Sprint(all)
}
