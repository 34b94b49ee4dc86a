package faults

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"goless.io/test/faults/wire"
)

// trailing is how long after the end of a case a write may still arrive: a request whose
// response was lost is repeated by an operator that may have to start first. It is longer than
// most cases, and shorter than most tests.
const trailing = 5 * time.Second

// reference is the result of a scenario without a fault.
type reference struct {
	prepared, state state // before and after the faults
	counts          counts
	writes          []wire.Request // from prepared to state
}

// judge waits until the case has reached the state of the reference, and checks the oracles.
// quiet checks what must hold from then on.
func (tr *trial) judge(want *reference) {
	tr.t.Helper()
	defer tr.explain()
	tr.await(func() error { return tr.whole().like(want.state) })
	tr.done = time.Now()
	tr.oracles()
	if err := world(tr.t).audit.counts(tr.t, tr.ns).within(want.counts, tr.deleted); err != nil {
		tr.t.Errorf("%s: %v", tr.ns, err)
	}
}

// explain logs all requests of the operator in the namespace if the test failed.
func (tr *trial) explain() {
	if !tr.t.Failed() {
		return
	}
	for _, event := range world(tr.t).audit.of(tr.t, tr.ns) {
		tr.t.Log(event.String())
	}
}

// oracles fail the test if a state occurred that must never occur.
func (tr *trial) oracles() {
	tr.t.Helper()
	tr.untouched()
	tr.truth()
	tr.uninterrupted()
	tr.reachable()
	tr.unblamed()
	for _, request := range world(tr.t).audit.forbidden(tr.t, tr.ns) {
		if !tr.outage {
			tr.t.Errorf("the operator lacks a permission: %s", request)
		}
	}
	world(tr.t).unbroken(tr.t)
}

// took returns the time that the case needed to converge, or another duration that it measured.
func (tr *trial) took() time.Duration { return cmp.Or(tr.measured, tr.done.Sub(tr.begun)) }

// quiet fails the test if the operator wrote in the namespace of a finished case, although it
// was restarted there many times. It waits for such writes for a while. Then it deletes all
// Functions, and fails the test if any object of them is left.
func quiet(t *testing.T, over []*trial) {
	t.Helper()
	window := time.Second
	if *full {
		window = 30 * time.Second
	}
	still := calmed(t, over)
	time.Sleep(window) // the period in which nothing must be written
	for _, tr := range over {
		since := pauses.after(tr.done, stretched(trailing))
		if tr.done.IsZero() || since.After(still) { // it is not over, or only just
			since = still
		}
		for _, request := range world(t).audit.after(t, tr.ns, since) {
			t.Errorf("%s: the operator wrote after the case had finished at %s: %s", tr.t.Name(), tr.done.Format("15:04:05.000"), request)
		}
	}
	for _, tr := range over {
		tr.t = t
		tr.explain()
		if tr.fn() != nil {
			tr.remove()
		}
	}
	for _, tr := range over {
		tr.await(func() error {
			if tr.fn() != nil {
				return errStillThere
			}
			return tr.children().like(state{})
		})
		tr.untouched()
		world(t).witness.forget(tr.ns)
	}
}

// calmed waits until no operator has written in the namespaces of the cases for a while, and
// returns the time.
func calmed(t *testing.T, over []*trial) time.Time {
	t.Helper()
	began := time.Now()
	for deadline := began.Add(*patience); time.Now().Before(deadline); time.Sleep(calm / 10) {
		now, while := time.Now(), stretched(calm)
		busy := slices.ContainsFunc(over, func(tr *trial) bool {
			return len(world(t).audit.after(t, tr.ns, now.Add(-while))) > 0
		})
		if !busy && now.After(pauses.after(began, while)) && !now.Before(pauses.after(now.Add(-while), while)) {
			return now
		}
	}
	t.Fatalf("the operator has been writing for %s", *patience)
	return time.Time{}
}
