package faults

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/wire"
)

// points are the kinds of requests that fail, each in a scenario that sends it.
var points = []struct{ scenario, verb, resource string }{
	{"conflict", "get", "services"},
	{"create", "create", "configmaps"},
	{"create", "create", "deployments"},
	{"create", "create", "services"},
	{"create", "create", "events"},
	{"create", "patch", "functions/status"},
	{"source", "apply", "deployments"},
	{"source", "delete", "configmaps"},
	{"service", "delete", "services"},
	{"broken", "patch", "functions/status"},
}

// mishaps are failures of requests.
var mishaps = []struct {
	name  string
	fault func() wire.Fault
}{
	{"409", func() wire.Fault { return wire.Answer(409, 0) }},
	{"429", func() wire.Fault { return wire.Answer(429, 0) }},
	{"429-retry-after", func() wire.Fault { return wire.Answer(429, 1) }},
	{"500", func() wire.Fault { return wire.Answer(500, 0) }},
	{"503", func() wire.Fault { return wire.Answer(503, 0) }},
	{"504", func() wire.Fault { return wire.Answer(504, 0) }},
	{"403", func() wire.Fault { return wire.Answer(403, 0) }},
	{"reset", func() wire.Fault { return wire.Before(func() {}) }},
	{"hang", wire.Hang},
}

// forms are how often a request fails: a number of times, or always.
var forms = []struct {
	name  string
	times int
	while time.Duration
}{{"once", 1, 0}, {"thrice", 3, 0}, {"for 3s", 1 << 30, 3 * time.Second}}

// TestErrors makes each kind of request fail in each way.
func TestErrors(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	i := 0
	for _, p := range points {
		s := named(p.scenario)
		t.Run(p.verb+" "+p.resource+" in "+p.scenario, func(t *testing.T) {
			want := s.reference(t)
			for _, m := range mishaps {
				for _, f := range forms {
					if i++; !chosen(i, m.name == "hang", f.times) {
						continue
					}
					t.Run(m.name+" "+f.name, func(t *testing.T) {
						over = append(over, s.against(t, "error "+m.name, want, func(tr *trial, hit *atomic.Bool) wire.Injector {
							return some(func(r wire.Request) bool {
								return r.Namespace == tr.ns && r.Verb == p.verb && r.Resource == p.resource
							}, f.times, f.while, hit, m.fault())
						}))
					})
				}
			}
		})
	}
}

// chosen reports whether the i-th case is run. A request that hangs times out after half a
// minute, so it hangs only once, and not in the short set.
func chosen(i int, hangs bool, times int) bool {
	if hangs {
		return *full && times == 1
	}
	return *full || i%22 == 0 // each kind of request, answer and form is among them
}

// TestRefusal makes the API server reject a request that the operator needs, until the status
// reports it. Another Function is not affected.
func TestRefusal(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	s := named("create")
	want := s.reference(t)
	for _, code := range []int{403, 422, 500, 503} {
		for _, resource := range []string{"configmaps", "deployments", "services"} {
			if !*full && code != 403 && resource != "services" {
				continue
			}
			t.Run(fmt.Sprintf("%d create %s", code, resource), func(t *testing.T) {
				over = append(over, s.refusedWith(t, code, resource, want)...)
			})
		}
	}
}

// refusedWith runs the scenario twice, and rejects the creation of a resource for one of the
// two.
func (s *scenario) refusedWith(t *testing.T, code int, resource string, want *reference) []*trial {
	t.Helper()
	tr, other := newTrial(t), newTrial(t)
	defer func() { table.note(t, "refusal", true, tr); table.note(t, "bystander", true, other) }()
	defer world(t).wire.Inject(nil)
	world(t).wire.Inject(func(r wire.Request) wire.Fault {
		if r.Namespace == tr.ns && r.Verb == "create" && r.Resource == resource {
			return wire.Answer(code, 0)
		}
		return nil
	})
	s.act(tr)
	tr.await(tr.reason(v1beta1.ReasonApplyFailed))
	message := strings.ToLower(tr.condition(v1beta1.ConditionReady).Message)
	if !strings.Contains(message, strings.TrimSuffix(resource, "s")) {
		t.Errorf("the message does not contain %s: %s", resource, message)
	}
	other.begin()
	s.act(other)
	other.judge(want)
	if other.done.After(pauses.after(other.begun, 10*time.Second)) {
		t.Errorf("an unaffected Function took %s", other.took())
	}
	world(t).wire.Inject(nil)
	tr.begin()
	tr.judge(want)
	return []*trial{tr, other}
}

// TestDispensable makes the API server reject a request that a Function does not depend on,
// until the operator has retried. The Function is ready all the same.
func TestDispensable(t *testing.T) {
	enter(t)
	tr := newTrial(t)
	defer func() { quiet(t, []*trial{tr}) }()
	var refused atomic.Int64
	defer func() { table.note(t, "dispensable", refused.Load() > 0, tr) }()
	defer world(t).wire.Inject(nil)
	world(t).wire.Inject(func(r wire.Request) wire.Fault {
		if r.Namespace == tr.ns && r.Verb == "create" && r.Resource == "poddisruptionbudgets" {
			refused.Add(1)
			return wire.Answer(403, 0)
		}
		return nil
	})
	tr.create(replicas(2))
	tr.awaitReady()
	tr.await(func() error {
		if n := refused.Load(); n < 3 {
			return fmt.Errorf("the operator has tried %d times", n)
		}
		return nil
	})
	tr.truth()
	world(t).wire.Inject(nil)
	tr.begin()
	tr.await(func() error {
		if world(t).witness.live("PodDisruptionBudget", tr.ns, subject) == nil {
			return errors.New("there is no PodDisruptionBudget")
		}
		return nil
	})
	tr.done = time.Now()
	tr.oracles()
}

// some makes matching requests fail a number of times, or for a duration from the first one.
func some(which func(wire.Request) bool, times int, while time.Duration, hit *atomic.Bool, fault wire.Fault) wire.Injector {
	var began time.Time
	return func(r wire.Request) wire.Fault {
		if !which(r) || times == 0 {
			return nil
		}
		if hit.CompareAndSwap(false, true) {
			began = time.Now()
		}
		if while > 0 && time.Since(began) > while {
			return nil
		}
		times--
		return fault
	}
}

func named(name string) *scenario {
	for _, s := range scenarios {
		if s.name == name {
			return s
		}
	}
	panic("there is no scenario " + name)
}
