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

// Sources that try to escape from a build, or never let it end, have the same result in the build
// service as in its image (see TestImageHostile in builder/cmd/builder). Meanwhile another
// namespace is served and gets its builds, and the service does not restart. Sources that are not
// built at all are tested in package hostile. Not parallel, because it uses the memory of several
// builds.
func TestHostileSources(t *testing.T) {
	cases, err := hostile.Cases()
	if err != nil {
		t.Fatal(err)
	}
	others := newNamespace(t)
	neighbour := others.ready(others.apply(shared("neighbour", answering("undisturbed"))))
	others.answers(neighbour, "undisturbed")
	stop := others.load(neighbour)
	ns := newNamespace(t)
	before := ns.buildRestarts()
	var group sync.WaitGroup
	for _, c := range cases {
		if c.Reason != v1beta1.ReasonInvalidSource {
			group.Go(func() { ns.judges(c) })
		}
	}
	other := others.ready(others.apply(shared("other", answering("0"))))
	for i := range 5 {
		other = others.ready(others.change(other, source(answering(fmt.Sprint(i+1)))))
		others.answers(other, fmt.Sprint(i+1))
	}
	group.Wait()
	stop()
	others.alwaysServed(neighbour)
	if now := ns.buildRestarts(); now != before {
		t.Errorf("containers of the build service were restarted %d times, previously %d times", now, before)
	}
}

// judges applies a source and compares the result of the build service.
func (ns *namespace) judges(c hostile.Case) {
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
	// The pods of functions that were built must not use memory while other sources are compiled.
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
