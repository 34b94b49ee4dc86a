package faults

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"goless.io/test/faults/wire"
)

// watchedResources are the resources that the operator watches.
var watchedResources = []string{"functions", "deployments", "services", "configmaps", "poddisruptionbudgets", "networkpolicies", "horizontalpodautoscalers", "replicasets", "controllerrevisions", "jobs", "pods", "endpointslices"}

// edits are scenarios of which the operator may see only the end.
var edits = []*scenario{
	named("source"), named("service"), named("scale"), named("recreate"),
	{name: "there and back", prepare: ready, act: func(tr *trial) {
		tr.change(source(second))
		tr.step()
		tr.change(source(first))
	}},
	{name: "up and down", prepare: ready, act: func(tr *trial) {
		tr.change(replicas(5))
		tr.step()
		tr.change(replicas(1))
	}},
	{name: "service there and back", prepare: ready, act: func(tr *trial) {
		tr.change(service("other"))
		tr.step()
		tr.change(service(""))
	}},
}

// stalls are what happens to a watch that has received nothing for a second.
var stalls = []struct {
	name string
	end  func(*wire.Valve)
}{
	{"held", (*wire.Valve).Release},
	{"cut", func(v *wire.Valve) { v.Cut(); v.Release() }},
	{"expired", func(v *wire.Valve) { v.Expire(); v.Release() }},
}

// TestWatches holds the events of one kind while those of others arrive, and then delivers them
// late, or never: the watch breaks, or is too old to continue.
func TestWatches(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	wants, i := wantEdits(t), 0
	for _, resource := range watchedResources {
		t.Run(resource, func(t *testing.T) {
			valve := throughValve(t, resource, &wire.Valve{})
			for _, s := range edits {
				for _, stall := range stalls {
					if i++; !*full && i%20 != 0 {
						continue
					}
					t.Run(s.name+" "+stall.name, func(t *testing.T) {
						over = append(over, s.stalled(t, wants[s], valve, stall.name, stall.end))
					})
				}
			}
		})
	}
}

// TestEvents repeats every event, and delays every event.
func TestEvents(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	wants := wantEdits(t)
	for i, resource := range watchedResources {
		for k, valve := range []*wire.Valve{{Twice: true}, {Delay: 300 * time.Millisecond}} {
			if !*full && i%4 != 3*k {
				continue
			}
			name := []string{"twice", "late"}[k]
			t.Run(resource+" "+name, func(t *testing.T) {
				throughValve(t, resource, valve)
				chosen := edits
				if !*full {
					chosen = []*scenario{edits[i%len(edits)]}
				}
				for _, s := range chosen {
					t.Run(s.name, func(t *testing.T) {
						over = append(over, s.stalled(t, wants[s], valve, name, func(*wire.Valve) {}))
					})
				}
			})
		}
	}
}

// wantEdits returns the references of all edits. They are created before a valve is used.
func wantEdits(t *testing.T) map[*scenario]*reference {
	t.Helper()
	wants := map[*scenario]*reference{}
	for _, s := range edits {
		wants[s] = s.reference(t)
	}
	return wants
}

// throughValve starts an operator whose watches of a resource go through a valve until the test
// ends.
func throughValve(t *testing.T, resource string, valve *wire.Valve) *wire.Valve {
	t.Helper()
	world(t).wire.Inject(func(r wire.Request) wire.Fault {
		if r.Verb == "watch" && r.Resource == resource {
			return valve.Fault()
		}
		return nil
	})
	t.Cleanup(func() { world(t).wire.Inject(nil); world(t).restart() })
	world(t).restart()
	if err := world(t).witness.await(*patience, func() error {
		if valve.Streams() == 0 {
			return errors.New("no operator watches " + resource)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return valve
}

// stalled runs the scenario while the valve is closed, opens it after a second in the given
// way, and judges the result.
func (s *scenario) stalled(t *testing.T, want *reference, valve *wire.Valve, group string, end func(*wire.Valve)) *trial {
	t.Helper()
	tr := newTrial(t)
	var hit atomic.Bool
	defer func() { table.note(t, "watch "+group, hit.Load(), tr) }()
	s.prepare(tr)
	tr.await(func() error { return tr.whole().like(want.prepared) })
	hit.Store(valve.Streams() > 0)
	ended := make(chan struct{})
	if group == "twice" || group == "late" {
		close(ended)
	} else {
		valve.Hold()
		time.AfterFunc(time.Second, func() { end(valve); close(ended) })
	}
	s.act(tr)
	tr.begin()
	tr.judge(want)
	<-ended // before the next case holds it
	return tr
}
