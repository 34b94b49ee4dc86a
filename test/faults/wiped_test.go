package faults

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// TestWiped takes away who owns which field of an object, as a restore from a
// backup does. What the Function no longer wants goes away all the same.
func TestWiped(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	for _, kind := range []string{"Deployment", "Service", "ConfigMap", "PodDisruptionBudget"} {
		for _, when := range []string{"before a change", "during a change"} {
			t.Run(kind+" "+when, func(t *testing.T) {
				tr := newTrial(t)
				over = append(over, tr)
				defer func() { table.note(t, "managed fields wiped", true, tr) }()
				tr.create(everything)
				tr.awaitReady()
				tr.settle()
				object := tr.child(kind).DeepCopy()
				wipe := func() {
					tr.must(world(t).client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`))))
				}
				less := func(spec *v1beta1.FunctionSpec) {
					service := spec.Service
					*spec = v1beta1.FunctionSpec{Function: spec.Function, Service: service, Replicas: spec.Replicas}
				}
				if when == "before a change" {
					wipe()
					tr.settle()
					tr.change(less)
				} else {
					tr.changeWhileAway(less, wipe)
				}
				tr.begin()
				tr.awaitReady()
				want := scratchOf(t, tr.fn().Spec)
				tr.await(func() error { return tr.children().like(want) })
				tr.settle()
				tr.done = time.Now()
				tr.oracles()
			})
		}
	}
}

// changeWhileAway changes the spec and does something else, and the operator sees
// both at once.
func (tr *trial) changeWhileAway(change func(*v1beta1.FunctionSpec), do func()) {
	tr.t.Helper()
	h := world(tr.t)
	h.operator.Kill()
	do()
	tr.change(change)
	tr.must(h.operator.Start())
}

// lies are what somebody writes into the status of a Function.
var lies = []struct{ name, patch string }{
	{"wiped", `{"status":null}`},
	{"empty", `{"status":{"conditions":[],"latestRevision":"","readyRevision":"","selector":"","url":"","build":null}}`},
	{"of another generation", `{"status":{"observedGeneration":77}}`},
	{"not ready", `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Lie","message":"","lastTransitionTime":"2000-01-01T00:00:00Z"}]}}`},
	{"other revision", `{"status":{"latestRevision":"0000000000","readyRevision":"0000000000"}}`},
	{"other replicas", `{"status":{"replicas":7,"readyReplicas":7}}`},
}

// TestLies lets somebody falsify the status, while the operator looks and while it
// is away. The truth is told again, and what runs stays as it is.
func TestLies(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	for _, lie := range lies {
		t.Run(lie.name, func(t *testing.T) {
			tr := newTrial(t)
			over = append(over, tr)
			defer func() { table.note(t, "status falsified", true, tr) }()
			ready(tr)
			tr.settle()
			want, uids := tr.whole(), tr.uids()
			fn := tr.fn()
			tr.must(world(t).client.Status().Patch(t.Context(), fn, client.RawPatch(types.MergePatchType, []byte(lie.patch))))
			tr.known(fn)
			world(t).restart() // statuses are not watched: at the next look at the latest
			tr.begin()
			tr.await(func() error { return tr.whole().like(want) })
			tr.settle()
			tr.done = time.Now()
			if now := tr.uids(); now != uids {
				t.Errorf("objects were made anew: %s, and before %s", now, uids)
			}
			tr.untouched()
			world(t).unbroken(t)
		})
	}
}

// uids tells which objects the children are.
func (tr *trial) uids() string {
	all := map[string]types.UID{}
	for _, object := range tr.objects() {
		all[object.GetKind()+"/"+object.GetName()] = object.GetUID()
	}
	return fmt.Sprint(all)
}
