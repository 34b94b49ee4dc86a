package faults

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// TestCrowd changes a ConfigMap to which many Functions refer several times in quick
// succession. Each of them is rolled out at most once per change, and all reach the state of a
// new Function.
func TestCrowd(t *testing.T) {
	enter(t)
	functions, changes := 20, 3
	if *full {
		functions = 300
	}
	tr := newTrial(t)
	defer func() { table.note(t, "crowd", true, tr) }()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: "settings"}}
	tr.must(world(t).client.Create(t.Context(), settings))
	refer := func(spec *v1beta1.FunctionSpec) {
		spec.Replicas = new(int32(0)) // only templates count here
		spec.EnvFrom = []v1beta1.EnvFromSource{{ConfigMapRef: &v1beta1.ObjectRef{Name: settings.Name}}}
	}
	for i := range functions {
		tr.another(fmt.Sprintf("one-%d", i), refer)
	}
	for i := range functions {
		tr.await(tr.isReady(fmt.Sprintf("one-%d", i)))
	}
	calmed(t, []*trial{tr})
	since := time.Now()
	tr.begin()
	for n := range changes {
		settings.Data = map[string]string{"N": fmt.Sprint(n)}
		tr.must(world(t).client.Update(t.Context(), settings))
	}
	tr.create(refer)
	tr.awaitReady()
	want := values(world(t).witness.live("Deployment", tr.ns, subject))
	for i := range functions {
		name := fmt.Sprintf("one-%d", i)
		tr.await(func() error {
			if got := values(world(t).witness.live("Deployment", tr.ns, name)); got != want {
				return fmt.Errorf("the pods of %s do not have what those of a new Function have", name)
			}
			return tr.isReady(name)()
		})
	}
	tr.done = time.Now()
	for name, n := range tr.rollouts(since) {
		if name != subject && n > changes {
			t.Errorf("Deployment %s was written %d times for %d changes", name, n, changes)
		}
	}
	tr.must(world(t).client.DeleteAllOf(t.Context(), &v1beta1.Function{}, client.InNamespace(tr.ns)))
	quiet(t, []*trial{tr})
}

// rollouts returns how often each Deployment was written since a time.
func (tr *trial) rollouts(since time.Time) map[string]int {
	tr.t.Helper()
	n := map[string]int{}
	for _, event := range world(tr.t).audit.of(tr.t, tr.ns) {
		if event.IsWrite() && event.ObjectRef.Resource == "deployments" && event.RequestReceivedTimestamp.After(since) {
			n[event.ObjectRef.Name]++
		}
	}
	return n
}

// values returns the annotations of a Deployment's pod template. One of them is the hash of the
// objects to which the Function refers.
func values(deployment *unstructured.Unstructured) string {
	annotations, _, _ := unstructured.NestedStringMap(deployment.Object, "spec", "template", "metadata", "annotations")
	return text(annotations)
}

// TestRivals creates two Functions with the same Service. One owns it, and the other one
// reports the conflict. When the first one is deleted, the other one gets the Service
// automatically.
func TestRivals(t *testing.T) {
	enter(t)
	tr := newTrial(t)
	tr.unowned = true
	defer func() { table.note(t, "rivals", true, tr) }()
	tr.create(service("wanted"))
	tr.another("rival", service("wanted"))
	var winner, loser string
	tr.await(func() error {
		for _, name := range []string{subject, "rival"} {
			if tr.isReady(name)() == nil {
				winner = name
			} else if ready := tr.readyOf(name); ready != nil && ready.Reason == v1beta1.ReasonServiceConflict {
				loser = name
			}
		}
		if winner == "" || loser == "" {
			return errors.New("neither Function has the Service yet")
		}
		return nil
	})
	tr.must(world(t).client.Delete(t.Context(), &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: winner}}))
	tr.deleted = true
	tr.begin()
	tr.await(tr.isReady(loser))
	tr.done = time.Now()
	if owner := metav1.GetControllerOf(world(t).witness.live("Service", tr.ns, "wanted")); owner == nil || owner.Name != loser {
		t.Errorf("the Service is owned by %v, and %s is ready", owner, loser)
	}
	tr.untouched()
	world(t).unbroken(t)
	tr.must(world(t).client.DeleteAllOf(t.Context(), &v1beta1.Function{}, client.InNamespace(tr.ns)))
	quiet(t, []*trial{tr})
}

// another creates another Function in the namespace.
func (tr *trial) another(name string, change func(*v1beta1.FunctionSpec)) {
	tr.t.Helper()
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: tr.ns, Name: name}}
	fn.Spec.Function = first
	change(&fn.Spec)
	tr.must(world(tr.t).client.Create(tr.t.Context(), fn))
}

// readyOf returns the condition Ready of a Function for its latest spec, or nil.
func (tr *trial) readyOf(name string) *metav1.Condition {
	tr.t.Helper()
	object := world(tr.t).witness.live("Function", tr.ns, name)
	if object == nil {
		return nil
	}
	fn := tr.typed(object.Object)
	if fn.Status.ObservedGeneration != fn.Generation {
		return nil
	}
	return meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady)
}

func (tr *trial) isReady(name string) func() error {
	return func() error {
		if ready := tr.readyOf(name); ready == nil || ready.Status != metav1.ConditionTrue {
			return fmt.Errorf("%s is not ready: %v", name, ready)
		}
		return nil
	}
}
