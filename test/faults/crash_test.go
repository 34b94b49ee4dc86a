package faults

import (
	"fmt"
	"sync/atomic"
	"testing"

	"goless.io/test/faults/wire"
)

// losses are the ways in which a write can fail without the operator knowing its result.
var losses = []struct {
	name string

	// short is the number of writes between two in the short set.
	short int
	fault func(*harness) wire.Fault
}{
	{"crash-before", 8, func(h *harness) wire.Fault { return wire.Before(h.restart) }},
	{"crash-after", 8, func(h *harness) wire.Fault { return wire.After(h.restart) }},
	{"lost", 11, func(*harness) wire.Fault { return wire.After(func() {}) }},
	{"500-after", 23, func(*harness) wire.Fault { return wire.AnswerAfter(500) }},
	{"504-after", 23, func(*harness) wire.Fault { return wire.AnswerAfter(504) }},
}

// TestWrites kills the operator before and after each write of each scenario, and drops the
// response of each.
func TestWrites(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			want := s.reference(t)
			for i, loss := range losses {
				for k := range want.writes {
					if !*full && (k+i)%loss.short != 0 {
						continue
					}
					t.Run(fmt.Sprintf("%s/%d %s", loss.name, k+1, want.writes[k].Verb+" "+want.writes[k].Resource), func(t *testing.T) {
						over = append(over, s.againstWrite(t, loss.name, want, k+1, loss.fault(world(t))))
					})
				}
			}
		})
	}
}

// againstWrite makes the n-th write fail, and judges the result. There may be fewer writes than
// in the reference, because the operator may combine two status updates: the last one is chosen
// then.
func (s *scenario) againstWrite(t *testing.T, group string, want *reference, n int, fault wire.Fault) (tr *trial) {
	t.Helper()
	var hit atomic.Bool
	defer func() { table.note(t, group, hit.Load(), tr) }()
	for ; n > 0 && !hit.Load(); n-- {
		tr = newTrial(t)
		s.judged(tr, want, nth(tr.ns, n, &hit, fault))
	}
	return tr
}

// against runs the scenario with an injector, and judges the result. The injector reports when
// it has injected its fault.
func (s *scenario) against(t *testing.T, group string, want *reference, injector func(*trial, *atomic.Bool) wire.Injector) *trial {
	t.Helper()
	tr := newTrial(t)
	var hit atomic.Bool
	defer func() { table.note(t, group, hit.Load(), tr) }()
	s.judged(tr, want, injector(tr, &hit))
	return tr
}

// judged runs the scenario in a trial with an injector, and judges the result.
func (s *scenario) judged(tr *trial, want *reference, injector wire.Injector) {
	t := tr.t
	t.Helper()
	defer world(t).wire.Inject(nil)
	s.prepare(tr)
	tr.await(func() error { return tr.whole().like(want.prepared) })
	world(t).wire.Inject(injector)
	tr.begin()
	s.act(tr)
	tr.judge(want)
}

// nth makes the n-th write in a namespace from now fail. Events do not count, because their
// order varies.
func nth(ns string, n int, hit *atomic.Bool, fault wire.Fault) wire.Injector {
	seen := 0
	return func(r wire.Request) wire.Fault {
		if r.Namespace != ns || !r.Write() || r.Resource == "events" {
			return nil
		}
		if seen++; seen != n {
			return nil
		}
		hit.Store(true)
		return fault
	}
}
