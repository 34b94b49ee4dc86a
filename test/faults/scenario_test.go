package faults

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

var errStillThere = errors.New("the Function is still there")

// scenario is something that users do to a Function.
type scenario struct {
	name string

	// prepare comes before the faults, and act while they happen.
	prepare, act func(*trial)

	// reason is Ready's in the end; empty when it is true. gone means that there
	// is no Function in the end.
	reason string
	gone   bool

	// scratch is the spec in the end; nil is that of first.
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

// fromScratch are the children of a Function that was created with the spec that
// the scenario ends with.
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

// arrived is that the scenario has come to its end, as far as that is known
// without a reference.
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

// reference runs the scenario without a fault, once, and slowly, so that all that
// may be written is. The children must be those of a Function that was created
// with the last spec.
func (s *scenario) reference(t *testing.T) *reference {
	t.Helper()
	references, key := world(t).references, string(world(t).strategy)+s.name
	if references[key] != nil {
		return references[key]
	}
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
	if !t.Failed() {
		references[key] = want
	}
	if !s.gone {
		tr.remove()
	}
	return want
}

// settle waits until the operator has written nothing in the namespace for a
// while.
func (tr *trial) settle() {
	tr.t.Helper()
	const calm = time.Second
	began := time.Now()
	for deadline := began.Add(*patience); time.Now().Before(deadline); time.Sleep(calm / 10) {
		last := began
		for _, request := range world(tr.t).wire.Requests(0) {
			if request.Namespace == tr.ns && request.Write() {
				last = request.Time
			}
		}
		if time.Since(last) > calm {
			return
		}
	}
	tr.t.Fatalf("%s: the operator has been writing for %s", tr.ns, *patience)
}
