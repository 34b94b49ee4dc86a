package faults

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// TestHeld deletes a Function that a finalizer of somebody holds. The operator does
// nothing for it any more, whatever becomes of its objects and of its spec.
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
		t.Errorf("written for a Function that has ended: %s", request)
	}
	tr.patch(function, `{"metadata":{"finalizers":null}}`)
	tr.vanished()
	tr.begin()
	tr.create()
	tr.judge(want)
	quiet(t, []*trial{tr})
}

// end deletes the Function in a way.
func (tr *trial) end(how metav1.DeletionPropagation) {
	tr.t.Helper()
	tr.deleted = true
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: subject}}
	tr.must(world(tr.t).client.Delete(tr.t.Context(), fn, client.PropagationPolicy(how)))
}

// vanished waits until there is neither the Function nor anything of it.
func (tr *trial) vanished() {
	tr.t.Helper()
	tr.await(func() error {
		if tr.fn() != nil {
			return errStillThere
		}
		return tr.children().like(state{})
	})
}
