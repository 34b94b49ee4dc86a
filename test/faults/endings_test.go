package faults

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/wire"
)

// TestEndings deletes the Function in the foreground before each write: it still exists while
// its objects are deleted, and gets no new ones. Then it is created again.
func TestEndings(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	want := named("create").reference(t)
	for i, s := range []*scenario{named("create"), named("source")} {
		for k := range 4 { // the order of later writes varies
			if !*full && k != 2*i {
				continue
			}
			t.Run(fmt.Sprintf("%s before %d", s.name, k+1), func(t *testing.T) {
				tr := newTrial(t)
				over = append(over, tr)
				defer func() { table.note(t, "foreground", true, tr) }()
				s.prepare(tr)
				tr.settle()
				tr.duringWhich(tr.nth(k+1), s.act, func(string) { tr.end(metav1.DeletePropagationForeground) })
				tr.vanished()
				tr.begin()
				tr.create()
				tr.await(func() error { return tr.whole().like(want.state) })
				tr.done = time.Now()
				tr.oracles()
			})
		}
	}
}

// TestHeld deletes a Function with a finalizer. The operator does nothing more for it, even if
// its objects or its spec change.
func TestHeld(t *testing.T) {
	enter(t)
	want := named("create").reference(t)
	tr := newTrial(t)
	defer func() { table.note(t, "Function held", true, tr) }()
	ready(tr)
	tr.settle()
	function := world(t).witness.live("Function", tr.ns, subject)
	tr.patch(function, `{"metadata":{"finalizers":["example.com/wait"]}}`)
	tr.end(metav1.DeletePropagationBackground)
	tr.await(func() error {
		if fn := tr.fn(); fn == nil || fn.DeletionTimestamp == nil {
			return fmt.Errorf("the Function does not end")
		}
		return nil
	})
	ended := time.Now()
	tr.change(replicas(3))
	tr.vanish(tr.child("Deployment"))
	world(t).restart()
	calmed(t, []*trial{tr})
	for _, request := range world(t).audit.after(t, tr.ns, ended) {
		t.Errorf("the operator wrote for a deleted Function: %s", request)
	}
	tr.patch(function, `{"metadata":{"finalizers":null}}`)
	tr.vanished()
	tr.begin()
	tr.create()
	tr.judge(want)
	quiet(t, []*trial{tr})
}

// nth returns a predicate for the n-th write in the namespace from now.
func (tr *trial) nth(n int) func(wire.Request) bool {
	return func(r wire.Request) bool {
		if r.Write() && r.Resource != "events" {
			n--
		}
		return n == 0
	}
}

// end deletes the Function.
func (tr *trial) end(how metav1.DeletionPropagation) {
	tr.t.Helper()
	tr.deleted = true
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: subject}}
	tr.must(world(tr.t).client.Delete(tr.t.Context(), fn, client.PropagationPolicy(how)))
}

// vanished waits until the Function and all its objects are gone.
func (tr *trial) vanished() {
	tr.t.Helper()
	tr.await(func() error {
		if tr.fn() != nil {
			return errStillThere
		}
		return tr.children().like(state{})
	})
}
