package faults

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

var errStillThere = errors.New("the Function is still there")

// scenario is a sequence of actions of users on a Function.
type scenario struct {
	name string

	// prepare runs before the faults, and act while they are injected.
	prepare, act func(*trial)

	// reason is the expected reason of Ready at the end; empty if it is True. gone means that
	// there is no Function at the end.
	reason string
	gone   bool

	// scratch sets the spec at the end. If nil, it is that of first.
	scratch func(*v1beta1.FunctionSpec)
}

func ready(tr *trial)   { tr.create(); tr.awaitReady() }
func nothing(tr *trial) {}

func source(text string) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) { spec.Function = text }
}

func service(name string) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) { spec.Service = name }
}

func replicas(n int32) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) { spec.Replicas = &n }
}

var scenarios = []*scenario{
	{name: "create", prepare: nothing, act: func(tr *trial) { tr.create() }},
	{name: "source", prepare: ready, act: func(tr *trial) { tr.change(source(second)) }, scratch: source(second)},
	{name: "service", prepare: ready, act: func(tr *trial) { tr.change(service("other")) }, scratch: service("other")},
	{name: "scale", prepare: ready, act: func(tr *trial) { tr.change(replicas(3)) }, scratch: replicas(3)},
	{name: "stop", prepare: ready, act: func(tr *trial) { tr.change(replicas(0)) }, scratch: replicas(0)},
	{name: "delete", prepare: ready, act: func(tr *trial) { tr.remove() }, gone: true},
	{name: "recreate", prepare: ready, act: func(tr *trial) { tr.remove(); tr.create(source(second)) }, scratch: source(second)},
	{name: "invalid", prepare: ready, act: func(tr *trial) {
		tr.change(source(invalid))
		tr.await(tr.reason(v1beta1.ReasonInvalidSource))
		tr.change(source(second))
	}, scratch: source(second)},
	{name: "broken", prepare: ready, act: func(tr *trial) {
		tr.change(source(broken))
		tr.await(tr.reason(v1beta1.ReasonCompileFailed))
		tr.change(source(second))
	}, scratch: source(second)},
	{name: "rollback", prepare: func(tr *trial) { tr.create(verified); tr.awaitReady() }, act: func(tr *trial) {
		tr.change(source(second))
		tr.verifies(50)
		tr.await(tr.reason(v1beta1.ReasonRolledBack))
		tr.change(source(third))
		tr.verifies(0)
	}, scratch: func(spec *v1beta1.FunctionSpec) { verified(spec); spec.Function = third }},
	{name: "taken", prepare: ready, act: func(tr *trial) {
		tr.unowned = true
		tr.change(service("decoy"))
		tr.await(tr.reason(v1beta1.ReasonServiceConflict))
		tr.change(service("other"))
	}, scratch: service("other")},
	{name: "conflict", prepare: nothing, act: func(tr *trial) {
		tr.unowned = true
		taken := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: "taken"}}
		taken.Spec.Ports = []corev1.ServicePort{{Port: 80}}
		tr.must(world(tr.t).client.Create(tr.t.Context(), taken))
		tr.create(service("taken"))
		tr.await(tr.reason(v1beta1.ReasonServiceConflict))
		tr.must(world(tr.t).client.Delete(tr.t.Context(), taken))
	}, scratch: service("taken")},
}

// fromScratch returns the children of a Function that is created with the final spec of the
// scenario.
func (s *scenario) fromScratch(t *testing.T) state {
	t.Helper()
	if s.gone {
		return state{}
	}
	tr := newTrial(t)
	tr.create(func(spec *v1beta1.FunctionSpec) {
		if s.scratch != nil {
			s.scratch(spec)
		}
	})
	tr.await(tr.reason(s.reason))
	tr.await(tr.applied)
	defer tr.remove()
	return tr.children()
}

// arrived returns whether the scenario has reached its end, as far as that is known without a
// reference.
func (s *scenario) arrived(tr *trial) func() error {
	if s.gone {
		return func() error {
			if tr.fn() != nil {
				return errStillThere
			}
			return nil
		}
	}
	return tr.reason(s.reason)
}

// reference runs the scenario without a fault, once for all control planes, and slowly, so that
// all possible writes occur. The children must be those of a Function that is created with the
// final spec.
func (s *scenario) reference(t *testing.T) *reference {
	t.Helper()
	m := models.of(s.name)
	if strategy := world(t).strategy; strategy != "" { // pods name the build service, and each world has its own
		m = models.of(fmt.Sprintf("%s %s %p", s.name, strategy, world(t)))
	}
	m.Lock() // another test may be creating it
	defer m.Unlock()
	if m.reference != nil {
		return m.reference
	}
	want := s.model(t)
	if !t.Failed() {
		m.reference = want
	}
	return want
}

func (s *scenario) model(t *testing.T) *reference {
	t.Helper()
	scratch := s.fromScratch(t)
	tr := newTrial(t)
	tr.slow = true
	s.prepare(tr)
	tr.settle()
	prepared, from := tr.whole(), world(t).wire.Len()
	s.act(tr)
	tr.await(s.arrived(tr))
	tr.await(func() error { return tr.children().like(scratch) })
	tr.settle()
	tr.done = time.Now()
	tr.oracles()
	want := &reference{prepared: prepared, state: tr.whole(), counts: world(t).audit.counts(t, tr.ns)}
	for _, request := range world(t).wire.Requests(from) {
		if request.Namespace == tr.ns && request.Write() && request.Resource != "events" {
			want.writes = append(want.writes, request)
		}
	}
	if !s.gone {
		tr.remove()
	}
	return want
}

// models contains the references by scenario.
var models library

type library struct {
	sync.Mutex
	all map[string]*model
}

// model is a reference, nil until it is created.
type model struct {
	sync.Mutex
	*reference
}

func (l *library) of(key string) *model {
	l.Lock()
	defer l.Unlock()
	if l.all == nil {
		l.all = map[string]*model{}
	}
	if l.all[key] == nil {
		l.all[key] = &model{}
	}
	return l.all[key]
}

// settle waits until the operator has written nothing in the namespace for a while.
func (tr *trial) settle() {
	tr.t.Helper()
	last := time.Now()
	for deadline := last.Add(*patience); time.Now().Before(deadline); time.Sleep(calm / 10) {
		if wrote := world(tr.t).wire.LastWrite(tr.ns); wrote.After(last) {
			last = wrote
		}
		if time.Now().After(pauses.after(last, stretched(calm))) {
			return
		}
	}
	tr.t.Fatalf("%s: the operator has been writing for %s", tr.ns, *patience)
}
