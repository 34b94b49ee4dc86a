package faults

import (
	"fmt"
	"testing"
	"time"

	"goless.io/operator/api/v1beta1"
	"goless.io/test/faults/plane"
)

// anotherServer starts another API server until the test ends.
func anotherServer(t *testing.T) *plane.Second {
	t.Helper()
	server, err := world(t).plane.Second(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// TestBehind starts the operator with an API server that is out of date. It must not revert
// newer changes.
func TestBehind(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	server := anotherServer(t)
	for i, name := range []string{"recreate", "service", "source", "scale", "delete"} {
		if !*full && i > 0 {
			continue
		}
		s := named(name)
		want := s.reference(t)
		t.Run(name, func(t *testing.T) {
			tr := newTrial(t)
			over = append(over, tr)
			defer func() { table.note(t, "API server behind", true, tr) }()
			s.prepare(tr)
			tr.settle()
			server.Line.Hold()
			held := true
			defer func() {
				if held {
					server.Line.Release()
				}
			}()
			s.act(tr)
			tr.await(func() error { return tr.whole().like(want.state) })
			tr.settle()
			before, objects := tr.uids(), tr.children()
			first, _ := world(t).plane.Upstream()
			defer func() { tr.must(world(t).wire.Lead(first)); world(t).restart() }()
			tr.must(world(t).wire.Lead(server.URL))
			world(t).restart()
			time.Sleep(2 * time.Second) // in which it could do harm
			held = false
			server.Line.Release()
			tr.begin()
			if !s.gone { // it has caught up when it follows a change
				last := tr.fn().Spec
				tr.change(replicas(5))
				tr.awaitReady()
				tr.change(func(spec *v1beta1.FunctionSpec) { *spec = last })
			}
			tr.await(func() error { return tr.children().like(objects) })
			tr.await(s.arrived(tr))
			tr.settle()
			tr.done = time.Now()
			tr.oracles()
			if now := tr.uids(); now != before {
				t.Errorf("objects were recreated: they are %s, and were %s", now, before)
			}
		})
	}
}

// TestRolling stops two API servers one after the other, like an upgrade of the control plane.
// The operator continues.
func TestRolling(t *testing.T) {
	enter(t)
	s := named("source")
	want := s.reference(t)
	tr := newTrial(t)
	s.prepare(tr)
	server := anotherServer(t)
	tr.settle()
	p, times := world(t).plane, 1
	if *full {
		times = 5
	}
	operator := world(t).operator.PID()
	for n := range times {
		t.Run(fmt.Sprint(n+1), func(t *testing.T) {
			tr := tr.in(t)
			defer func() { table.note(t, "API servers rolled", true, tr) }()
			tr.must(world(t).wire.Lead(server.URL))
			p.APIServer.Kill()
			tr.begin()
			tr.must(p.APIServer.Start())
			tr.must(p.Await(t.Context()))
			tr.change(source(third))
			first, _ := p.Upstream()
			tr.must(world(t).wire.Lead(first))
			server.Kill()
			tr.change(s.scratch)
			tr.await(func() error { return tr.children().like(want.state.objects()) })
			tr.awaitReady()
			tr.done = time.Now()
			tr.must(server.Start())
			tr.must(server.Await(t.Context()))
		})
	}
	if now := world(t).operator.PID(); now != operator {
		t.Errorf("the operator was restarted: its process is %d, and was %d", now, operator)
	}
	tr.outage = true
	tr.done = time.Now()
	tr.oracles()
	quiet(t, []*trial{tr})
}
