package faults

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// fields sets each field of a spec to a random value of its type, including the default.
var fields = []func(*rand.Rand, *v1beta1.FunctionSpec){
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) { spec.Function = pick(r, first, second, third) },
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) { spec.Service = pick(r, "", "one", "two") },
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) { spec.ServerPort = pick(r, int32(8080), 80, 65535) },
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) { spec.Replicas = new(pick(r, int32(0), 1, 1, 2, 3)) },
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) {
		spec.Env = pick(r, nil, []v1beta1.EnvVar{{Name: "A", Value: "1"}}, []v1beta1.EnvVar{{Name: "B"}, {Name: "A", Value: "2"}})
	},
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) {
		spec.EnvFrom = pick(r, nil, []v1beta1.EnvFromSource{{ConfigMapRef: &v1beta1.ObjectRef{Name: "settings", Optional: new(true)}}})
	},
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) {
		spec.Resources = pick(r, nil, &v1beta1.Resources{Limits: v1beta1.Amounts{Memory: new(resource.MustParse("64Mi"))}},
			&v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("1"))}})
	},
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) {
		spec.Timeout = pick(r, nil, &metav1.Duration{}, &metav1.Duration{Duration: 5 * time.Minute})
	},
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) { spec.Concurrency = pick(r, int32(0), 1, 100) },
	func(r *rand.Rand, spec *v1beta1.FunctionSpec) {
		spec.Build = pick(r, nil, &v1beta1.BuildSpec{Timeout: &metav1.Duration{Duration: time.Minute}})
	},
}

// mistakes are specs that the operator or the compiler rejects. The last good spec after one of
// them must restore the last good state.
var mistakes = []struct {
	reason string
	change func(*v1beta1.FunctionSpec)
}{
	{v1beta1.ReasonInvalidSource, source(invalid)},
	{v1beta1.ReasonCompileFailed, source(broken)},
	{v1beta1.ReasonServiceConflict, service("decoy")},
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// TestTransitions changes a Function repeatedly, and compares the result with a new Function
// that has the final spec from the beginning. Some changes are mistakes.
func TestTransitions(t *testing.T) {
	enter(t)
	steps := 15
	if *full {
		steps = 2000
	}
	r := random()
	tr := newTrial(t)
	tr.unowned = true // now and then
	tr.create()
	tr.awaitReady()
	for step := range steps {
		t.Run(fmt.Sprintf("step %d", step), func(t *testing.T) {
			tr := tr.in(t)
			defer func() { table.note(t, "transition", true, tr) }()
			if r.IntN(8) == 0 {
				tr.err(r)
			}
			var after v1beta1.FunctionSpec
			for range r.IntN(3) + 1 {
				field := fields[r.IntN(len(fields))]
				tr.change(func(spec *v1beta1.FunctionSpec) { field(r, spec); after = *spec })
			}
			tr.begin()
			want := scratchOf(t, after)
			tr.await(func() error { return tr.children().like(want) })
			tr.awaitReady()
			tr.done = time.Now()
		})
	}
	tr.done = time.Now()
	tr.oracles()
	quiet(t, []*trial{tr})
}

// err makes a mistake, waits until it is reported, and reverts it.
func (tr *trial) err(r *rand.Rand) {
	tr.t.Helper()
	mistake := mistakes[r.IntN(len(mistakes))]
	good := tr.fn().Spec
	if *good.Replicas == 0 && mistake.reason == v1beta1.ReasonCompileFailed {
		return // nothing compiles
	}
	before := tr.children()
	tr.change(mistake.change)
	tr.await(tr.reason(mistake.reason))
	tr.change(func(spec *v1beta1.FunctionSpec) { *spec = good })
	tr.await(func() error { return tr.children().like(before) })
	tr.awaitReady()
}

func scratchOf(t *testing.T, spec v1beta1.FunctionSpec) state {
	t.Helper()
	h, key := world(t), text(spec)
	h.mu.Lock()
	known, ok := h.scratches[key]
	h.mu.Unlock()
	if ok {
		return known
	}
	tr := newTrial(t)
	tr.create(func(s *v1beta1.FunctionSpec) { *s = spec })
	tr.awaitReady()
	tr.await(tr.applied)
	scratch := tr.children()
	tr.remove()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.scratches[key] = scratch
	return scratch
}
