package e2e

import (
	"net/http"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// sleeping lets a Function sleep as soon as possible.
func sleeping(spec *v1beta1.FunctionSpec) {
	spec.Scaling = &v1beta1.Scaling{Min: new(int32(0)), SleepAfter: &metav1.Duration{Duration: v1beta1.MinSleepAfter}}
}

// A function without requests sleeps and is still reported as ready. Requests wake it, and none
// is lost. If a broken revision arrives while it sleeps, requests wake the previous one.
func TestSleep(t *testing.T) {
	t.Parallel()
	const atOnce = 100
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("sleepy", answering("awake"), sleeping)))
	ns.answers(fn, "awake")
	good := fn.Status.LatestRevision
	fn = ns.asleep(fn)

	var group sync.WaitGroup
	for range atOnce {
		group.Go(func() {
			r, err := caller.call(t.Context(), http.MethodGet, url(fn), "")
			if err != nil || r.Status != http.StatusOK || r.Body != "awake" {
				t.Errorf("a request that wakes the function got %d %q %s (%v)", r.Status, r.Body, r.Error, err)
			}
		})
	}
	group.Wait()
	fn = ns.becomes(fn, "awake", func(fn *v1beta1.Function) bool {
		return condition(fn, v1beta1.ConditionReady).Reason == v1beta1.ReasonServing
	})
	fn = ns.asleep(fn)

	fn = ns.stalled(ns.change(fn, source(undefined)), v1beta1.ReasonCompileFailed)
	ns.has(fn, v1beta1.ConditionAvailable, metav1.ConditionTrue, v1beta1.ReasonAsleep)
	if fn.Status.ReadyRevision != good {
		t.Errorf("revision %s wakes, but the status is %s", good, yamlOf(fn.Status))
	}
	ns.answers(fn, "awake")
	fn = ns.ready(ns.change(fn, source(answering("wide awake"))))
	ns.answers(fn, "wide awake")
}

// asleep waits until a Function sleeps, and fails the test unless kubectl and kstatus report it
// as ready.
func (ns *namespace) asleep(fn *v1beta1.Function) *v1beta1.Function {
	ns.t.Helper()
	fn = ns.becomes(fn, "asleep", func(fn *v1beta1.Function) bool {
		return condition(fn, v1beta1.ConditionReady).Reason == v1beta1.ReasonAsleep && fn.Status.Replicas == 0
	})
	ns.until("it has no pods", func() bool { return len(ns.pods(fn)) == 0 })
	ns.agree(fn)
	return fn
}
