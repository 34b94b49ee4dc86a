package e2e

import (
	"fmt"
	"testing"

	"goless.io/operator/api/v1beta1"
)

// A function under heavy traffic is rolled out anew, and then its pods are deleted
// one after the other, forty of them: no request fails, and there are a hundred
// thousand at least. It is not parallel, because it wants the machine for itself.
func TestEndurance(t *testing.T) {
	const (
		deletions = 40
		requests  = 100_000
	)
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("enduring", answering("old"), replicas(2))))
	ns.answers(fn, "old")
	load := ns.loadAt(fn, 1000)

	fn = ns.ready(ns.change(fn, source(answering("new"))))
	for range deletions {
		ns.deletePod(fn)
	}
	load.sent(requests)
	if seen := load.stop(); len(seen.Answers) != 2 {
		t.Errorf("the answers were %v", seen.Answers)
	}
	ns.alwaysServed(fn)
}

// deletePod deletes a pod of a Function and waits until another is ready.
func (ns *namespace) deletePod(fn *v1beta1.Function) {
	ns.t.Helper()
	pod := ns.pod(fn)
	if err := ns.client.Delete(ns.t.Context(), pod); err != nil {
		ns.t.Fatal(err)
	}
	ns.until(fmt.Sprintf("pod %s is replaced", pod.Name), func() bool {
		ready := 0
		for _, p := range ns.pods(fn) {
			if p.UID != pod.UID && podReady(p) != nil {
				ready++
			}
		}
		return ready == int(fn.WantedReplicas())
	})
}
