package e2e

import (
	"fmt"
	"testing"

	"goless.io/operator/api/v1beta1"
)

// A function under heavy traffic is rolled out, and then sixteen of its pods are deleted, two
// of four at a time. No request of at least forty thousand fails. Not parallel, because it
// needs the whole machine.
func TestEndurance(t *testing.T) {
	const (
		deletions, atOnce = 16, 2
		requests          = 40_000
	)
	ns := newNamespace(t)
	fn := ns.ready(ns.apply(function("enduring", answering("old"), replicas(2*atOnce))))
	ns.answers(fn, "old")
	load := ns.loadAt(fn, 2000)

	fn = ns.ready(ns.change(fn, source(answering("new"))))
	for range deletions / atOnce {
		ns.deletePods(fn, atOnce)
	}
	load.sent(requests)
	if seen := load.stop(); len(seen.Answers) != 2 {
		t.Errorf("the responses were %v", seen.Answers)
	}
	ns.alwaysServed(fn)
}

// deletePods deletes n pods of a Function whose replicas are all ready, and waits until they
// are replaced.
func (ns *namespace) deletePods(fn *v1beta1.Function, n int) {
	ns.t.Helper()
	var deleted []string
	for _, pod := range ns.readyPods(fn, "")[:n] {
		if err := ns.client.Delete(ns.t.Context(), &pod); err != nil {
			ns.t.Fatal(err)
		}
		deleted = append(deleted, pod.Name)
	}
	ns.until(fmt.Sprintf("pods %v are replaced", deleted), func() bool {
		return len(ns.readyPods(fn, "")) == int(fn.WantedReplicas())
	})
}
