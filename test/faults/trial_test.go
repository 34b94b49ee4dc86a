package faults

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// subject is the name of the Function of every case.
const subject = "subject"

// Sources of Functions.
const (
	first   = "package f\n\nimport \"net/http\"\n\nfunc Handler(w http.ResponseWriter, r *http.Request) {}\n"
	second  = first + "\n// Second.\n"
	third   = first + "\n// Third.\n"
	invalid = "package f\n"
	broken  = first + "\nvar _ = Broken\n"
)

// trial is one case: a namespace with decoys, and a Function in it.
type trial struct {
	t    *testing.T
	ns   string
	slow bool // waits after each step of what users do

	deleted bool // the Function, at least once
	unowned bool // the test has given an object another owner
	outage  bool // the API server was restarted, and at first forbids everything
	behind  bool // the Deployment's status is late, because it is written constantly
	decoy   []client.Object
	from    int       // where in the operator's requests it began
	begun   time.Time // when the faults began
	done    time.Time // when the case reached the wanted state; zero before

	measured time.Duration // replaces the time between
}

var trials atomic.Int64

func newTrial(t *testing.T) *trial {
	t.Helper()
	tr := &trial{t: t, ns: fmt.Sprintf("case-%d", trials.Add(1)), from: world(t).wire.Len()}
	tr.must(world(t).client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tr.ns}}))
	tr.lay()
	return tr
}

func (tr *trial) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

// create creates the Function.
func (tr *trial) create(changes ...func(*v1beta1.FunctionSpec)) {
	tr.t.Helper()
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: subject}}
	fn.Spec.Function = first
	fn.Spec.RevisionHistoryLimit = new(int32(0)) // so that the end is the same, whatever came before
	if strategy := world(tr.t).strategy; strategy != "" {
		fn.Spec.Build = &v1beta1.BuildSpec{Strategy: strategy}
	}
	for _, change := range changes {
		change(&fn.Spec)
	}
	tr.must(world(tr.t).client.Create(tr.t.Context(), fn))
	tr.known(fn)
}

// change changes the spec of the Function.
func (tr *trial) change(change func(*v1beta1.FunctionSpec)) {
	tr.t.Helper()
	fn := &v1beta1.Function{}
	tr.must(world(tr.t).client.Get(tr.t.Context(), client.ObjectKey{Namespace: tr.ns, Name: subject}, fn))
	before := fn.DeepCopy()
	change(&fn.Spec)
	tr.must(world(tr.t).client.Patch(tr.t.Context(), fn, client.MergeFrom(before)))
	tr.known(fn)
}

// known waits until the witness has seen the change of the Function, so that no old status is
// mistaken for the current one.
func (tr *trial) known(fn *v1beta1.Function) {
	tr.t.Helper()
	tr.await(func() error {
		if now := tr.fn(); now == nil || now.UID != fn.UID || now.Generation < fn.Generation {
			return fmt.Errorf("generation %d of the Function has not arrived", fn.Generation)
		}
		return nil
	})
}

// remove deletes the Function; the garbage collector deletes its objects.
func (tr *trial) remove() {
	tr.t.Helper()
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: subject}}
	tr.deleted = true
	tr.must(world(tr.t).client.Delete(tr.t.Context(), fn, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// await waits until a condition holds, and fails the test if it never does.
func (tr *trial) await(holds func() error) {
	tr.t.Helper()
	if err := world(tr.t).witness.await(stretched(*patience), holds); err != nil {
		tr.t.Fatalf("%s: %v", tr.ns, err)
	}
}

// fn returns the current Function, or nil.
func (tr *trial) fn() *v1beta1.Function {
	tr.t.Helper()
	object := world(tr.t).witness.live("Function", tr.ns, subject)
	if object == nil {
		return nil
	}
	return tr.typed(object.Object)
}

func (tr *trial) typed(object map[string]any) *v1beta1.Function {
	tr.t.Helper()
	fn := &v1beta1.Function{}
	tr.must(runtime.DefaultUnstructuredConverter.FromUnstructured(object, fn))
	return fn
}

// reason returns a condition: Ready of the latest spec has a reason. An empty reason means that
// Ready is True, with the wanted number of replicas.
func (tr *trial) reason(want string) func() error {
	return func() error {
		fn := tr.fn()
		if fn == nil {
			return fmt.Errorf("there is no Function")
		}
		ready := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady)
		switch {
		case fn.Status.ObservedGeneration != fn.Generation || ready == nil:
			return fmt.Errorf("the status is of generation %d, the Function of %d", fn.Status.ObservedGeneration, fn.Generation)
		case want == "" && meta.IsStatusConditionTrue(fn.Status.Conditions, v1beta1.ConditionReconciling):
			return errors.New("the Function is between two sizes, or not ready")
		case want == "" && ready.Status == metav1.ConditionTrue, want != "" && ready.Reason == want:
			return nil
		}
		return fmt.Errorf("Ready is %s for %s (%s), not %q", ready.Status, ready.Reason, ready.Message, want)
	}
}

// step ends one step of the users. They do not wait for the operator while there are faults.
func (tr *trial) step() {
	tr.t.Helper()
	if tr.slow {
		tr.awaitReady()
		tr.settle()
	}
}

func (tr *trial) awaitReady() {
	tr.t.Helper()
	tr.await(tr.reason(""))
}

// begin starts the measurement of the time to converge.
func (tr *trial) begin() { tr.begun = time.Now() }

// applied returns nil if the operator owns its fields only by server-side apply, which is the
// last step for a new object.
func (tr *trial) applied() error {
	for _, object := range tr.objects() {
		for _, entry := range object.GetManagedFields() {
			if entry.Manager == "goless-operator" && entry.Operation != metav1.ManagedFieldsOperationApply {
				return fmt.Errorf("%s %s is owned by an update", object.GetKind(), object.GetName())
			}
		}
	}
	return nil
}

// condition returns a condition of the Function, or an empty one.
func (tr *trial) condition(kind string) metav1.Condition {
	tr.t.Helper()
	if fn := tr.fn(); fn != nil {
		if c := meta.FindStatusCondition(fn.Status.Conditions, kind); c != nil {
			return *c
		}
	}
	return metav1.Condition{}
}
