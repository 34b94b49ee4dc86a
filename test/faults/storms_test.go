package faults

import (
	"sync/atomic"
	"testing"
	"time"

	"goless.io/test/faults/wire"
)

// storms make all requests fail for some seconds, including new watches.
var storms = []struct {
	name  string
	fault func() wire.Fault
}{
	{"429", func() wire.Fault { return wire.Answer(429, 1) }},
	{"503", func() wire.Fault { return wire.Answer(503, 0) }},
	{"401", func() wire.Fault { return wire.Answer(401, 0) }},
	{"reset", func() wire.Fault { return wire.Before(func() {}) }},
	{"page of a proxy", func() wire.Fault { return wire.Garbled("<html>Bad Gateway</html>") }},
	{"half an answer", func() wire.Fault { return wire.Garbled(`{"kind":"Status","apiVersion":"v1","meta`) }},
	{"no answer", func() wire.Fault { return wire.Garbled("") }},
}

// TestStorms makes all requests of the operator fail during a rollout, and breaks its watches.
func TestStorms(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	s := named("source")
	want := s.reference(t)
	valve := throughValve(t, "deployments", &wire.Valve{})
	for _, storm := range storms {
		t.Run(storm.name, func(t *testing.T) {
			tr := s.against(t, "storm", want, func(_ *trial, hit *atomic.Bool) wire.Injector {
				valve.Cut()
				everything := func(r wire.Request) bool { return r.Resource != "" }
				return some(everything, 1<<30, 4*time.Second, hit, storm.fault())
			})
			over = append(over, tr)
			world(t).wire.Inject(func(r wire.Request) wire.Fault {
				if r.Verb == "watch" && r.Resource == "deployments" {
					return valve.Fault()
				}
				return nil
			})
		})
	}
}

// TestGarbled responds to the k-th write with invalid data, although it was carried out.
func TestGarbled(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	s := named("service")
	want := s.reference(t)
	for k := range want.writes {
		for i, storm := range storms[len(storms)-3:] {
			if !*full && i != k%3 {
				continue
			}
			t.Run(storm.name+" "+want.writes[k].Verb+" "+want.writes[k].Resource, func(t *testing.T) {
				over = append(over, s.against(t, "garbled", want, func(tr *trial, hit *atomic.Bool) wire.Injector {
					return nth(tr.ns, k+1, hit, storm.fault())
				}))
			})
		}
	}
}
