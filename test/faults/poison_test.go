package faults

import (
	"maps"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// poisons are Functions that the API server would reject: from before a schema became stricter,
// or written directly to etcd.
var poisons = []struct {
	name string
	spec map[string]any
}{
	{"word for a number", map[string]any{"function": first, "replicas": "many"}},
	{"number beyond its type", map[string]any{"function": first, "replicas": int64(1) << 40}},
	{"word for a duration", map[string]any{"function": first, "timeout": "later"}},
	{"word for an amount", map[string]any{"function": first, "resources": map[string]any{"limits": map[string]any{"memory": "lots"}}}},
	{"map for a list", map[string]any{"function": first, "env": map[string]any{"A": "B"}}},
	{"number for the source", map[string]any{"function": 5}},
	{"list for the spec", nil},
}

// TestPoison writes Functions that cannot be decoded to etcd. All others are not affected, even
// after a restart.
func TestPoison(t *testing.T) {
	enter(t)
	var over []*trial
	defer func() { quiet(t, over) }()
	s := named("source")
	want := s.reference(t)
	for i, poison := range poisons {
		if !*full && i%6 != 0 {
			continue
		}
		t.Run(poison.name, func(t *testing.T) {
			tr, aside := newTrial(t), newTrial(t)
			over = append(over, tr)
			defer func() { table.note(t, "poison", true, tr) }()
			s.prepare(tr)
			tr.settle()
			key, object := aside.unreadable(poison.spec)
			tr.must(world(t).plane.Put(t.Context(), key, object))
			defer func() { tr.must(world(t).plane.Drop(t.Context(), key)) }()
			world(t).restart()
			tr.begin()
			s.act(tr)
			tr.judge(want)
		})
	}
}

// unreadable returns a Function as it is in etcd, and its key.
func (tr *trial) unreadable(spec map[string]any) (key string, object map[string]any) {
	object = map[string]any{
		"apiVersion": "goless.io/v1beta1", "kind": "Function",
		"metadata": map[string]any{
			"namespace": tr.ns, "name": "poison", "uid": string(uuid.NewUUID()),
			"generation": 1, "creationTimestamp": metav1.Now().UTC().Format(time.RFC3339),
		},
	}
	if spec == nil {
		object["spec"] = []any{}
	} else {
		object["spec"] = maps.Clone(spec)
	}
	return "/registry/goless.io/functions/" + tr.ns + "/poison", object
}

// TestLargest uses the largest possible Function: a source of the maximum length with four-byte
// characters, and the maximum size of annotations. It is served and scaled, and its status is
// correct.
func TestLargest(t *testing.T) {
	enter(t)
	tr := newTrial(t)
	defer func() { table.note(t, "largest", true, tr) }()
	const most = 245760
	text := first + "\n// "
	text += strings.Repeat("\U0001F600", most-len([]rune(text)))
	tr.begin()
	tr.create(source(text))
	tr.annotate(map[string]string{"example.com/large": strings.Repeat("x", 200<<10)})
	tr.awaitReady()
	tr.change(replicas(2))
	tr.awaitReady()
	tr.change(source(first + "\nvar _ = Broken\n" + text[len(first):len(text)-100]))
	tr.await(tr.reason(v1beta1.ReasonCompileFailed))
	tr.change(source(text))
	tr.awaitReady()
	tr.settle()
	tr.done = time.Now()
	tr.oracles()
	quiet(t, []*trial{tr})
}

// annotate sets annotations of the Function.
func (tr *trial) annotate(annotations map[string]string) {
	tr.t.Helper()
	fn := tr.fn()
	if fn == nil {
		tr.t.Fatal("there is no Function")
	}
	before := fn.DeepCopy()
	if fn.Annotations == nil {
		fn.Annotations = map[string]string{}
	}
	maps.Copy(fn.Annotations, annotations)
	tr.must(world(tr.t).client.Patch(tr.t.Context(), fn, client.MergeFrom(before)))
}
