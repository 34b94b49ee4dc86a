package e2e

import (
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/builder/hostile"
	"goless.io/operator/api/v1beta1"
)

// endlessEnough is a build timeout that no endless build meets, but which lets a builder on a
// busy machine start the compiler.
const endlessEnough = 4 * time.Second

// Sources that try to escape from a build, or never let it end, have the same result as
// everywhere, and another function keeps serving. Sources that are not built at all are tested
// against admission, without a cluster. Not parallel, because it uses the memory of several
// builds.
func TestHostileSources(t *testing.T) {
	const atOnce = 4
	cases, err := hostile.Cases()
	if err != nil {
		t.Fatal(err)
	}
	beside := newNamespace(t)
	neighbour := beside.ready(beside.apply(function("neighbour", answering("undisturbed"))))
	beside.answers(neighbour, "undisturbed")
	stop := beside.load(neighbour)
	ns := newNamespace(t)
	var group sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for _, c := range cases {
		if c.Reason == v1beta1.ReasonInvalidSource {
			continue
		}
		turns <- struct{}{}
		group.Go(func() {
			defer func() { <-turns }()
			ns.judges(c)
		})
	}
	group.Wait()
	stop()
	beside.alwaysServed(neighbour)
}

// judges applies a source and compares the result.
func (ns *namespace) judges(c hostile.Case) {
	fn := inPod(c.Name, string(c.Source))
	fn.Namespace = ns.name
	if c.Reason == v1beta1.ReasonBuildTimeout { // the others end by themselves
		fn.Spec.Build.Timeout = &metav1.Duration{Duration: endlessEnough}
	}
	if err := ns.client.Create(ns.t.Context(), fn); err != nil {
		ns.t.Errorf("%s: %v", c.Name, err)
		return
	}
	verdict := ns.awaitVerdict(fn)
	if !c.Matches(verdict.Reason, verdict.Message) {
		ns.t.Errorf("%s: Built is %s: %s, want %s: %s", c.Name, verdict.Reason, verdict.Message, c.Reason, c.Says)
	}
	// Pods of a bomb must not be retried while the next one runs.
	if err := ns.client.Delete(ns.t.Context(), fn); err != nil {
		ns.t.Errorf("%s: %v", c.Name, err)
	}
}

// awaitVerdict waits until the reason of Built is final. It does not end the test when it times
// out, so that goroutines can call it.
func (ns *namespace) awaitVerdict(fn *v1beta1.Function) metav1.Condition {
	deadline := time.After(patience)
	for {
		news := ns.witness.next()
		for _, f := range current[*v1beta1.Function](ns.witness) {
			c := condition(f, v1beta1.ConditionBuilt)
			if f.UID == fn.UID && c.Status != "" && c.Status != metav1.ConditionUnknown {
				return c
			}
		}
		select {
		case <-news:
		case <-deadline:
			return metav1.Condition{Reason: "none", Message: "no verdict in " + patience.String()}
		}
	}
}
