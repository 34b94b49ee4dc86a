package e2e

import (
	"fmt"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/builder/hostile"
	"goless.io/operator/api/v1beta1"
)

// Sources that exceed a limit have the same result in the build service as in a pod. Sources of
// another namespace are compiled concurrently, and no build stops the service. Not parallel,
// because it uses the memory of several builds.
func TestSharedBombs(t *testing.T) {
	cases, err := hostile.Cases()
	if err != nil {
		t.Fatal(err)
	}
	ns, others := newNamespace(t), newNamespace(t)
	before := ns.buildRestarts()
	var group sync.WaitGroup
	for _, c := range cases {
		if c.Bomb() {
			group.Go(func() { ns.judgesShared(c) })
		}
	}
	good := shared("good", answering("0"))
	for i := range 5 {
		if i == 0 {
			good = others.ready(others.apply(good))
		} else {
			good = others.ready(others.change(good, source(answering(fmt.Sprint(i)))))
		}
		others.answers(good, fmt.Sprint(i))
	}
	group.Wait()
	ns.fewPodsOf(good, 0)
	if now := ns.buildRestarts(); now != before {
		t.Errorf("containers of the build service were restarted %d times, previously %d times", now, before)
	}
}

// judgesShared applies a source and compares the result of the build service.
func (ns *namespace) judgesShared(c hostile.Case) {
	fn := shared(c.Name, string(c.Source))
	fn.Namespace = ns.name
	if c.Reason == v1beta1.ReasonBuildTimeout { // the others end by themselves
		fn.Spec.Build.Timeout = &metav1.Duration{Duration: 10 * time.Second}
	}
	if err := ns.client.Create(ns.t.Context(), fn); err != nil {
		ns.t.Errorf("%s: %v", c.Name, err)
		return
	}
	verdict := ns.awaitVerdict(fn)
	if !c.Matches(verdict.Reason, verdict.Message) {
		ns.t.Errorf("%s: Built is %s: %s, want %s: %s", c.Name, verdict.Reason, verdict.Message, c.Reason, c.Says)
	}
}

// buildRestarts returns how often containers of the build service were restarted.
func (ns *namespace) buildRestarts() (n int32) {
	ns.t.Helper()
	pods, err := buildPods(ns.t.Context())
	if err != nil {
		ns.t.Fatal(err)
	}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			n += c.RestartCount
		}
	}
	return n
}
