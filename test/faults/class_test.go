package faults

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// TestClass changes a class of many Functions, and kills the operator during the staged
// rollout, which then loses its state. At most a tenth of them roll out at the same time, all
// of them serve all the time, and the class reports the progress.
func TestClass(t *testing.T) {
	enter(t)
	functions := 30
	if *full {
		functions = 200
	}
	tr := newTrial(t)
	defer func() { table.note(t, "class", true, tr) }()
	class := &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: tr.ns}}
	tr.must(world(t).client.Create(t.Context(), class))
	for i := range functions {
		tr.another(fmt.Sprintf("one-%d", i), func(spec *v1beta1.FunctionSpec) { spec.ClassName = class.Name })
	}
	tr.reached(class, functions, functions)
	for i := range functions {
		tr.await(tr.isReady(fmt.Sprintf("one-%d", i)))
	}
	calmed(t, []*trial{tr})

	tr.begin()
	class.Spec.Tolerations = []corev1.Toleration{{Key: "functions", Operator: corev1.TolerationOpExists}}
	tr.must(world(t).client.Update(t.Context(), class))
	for n := range functions {
		if n == functions/2 {
			world(t).restart()
		}
		tr.reached(class, functions, n+1)
	}
	for i := range functions {
		tr.await(tr.isReady(fmt.Sprintf("one-%d", i)))
	}
	tr.done = time.Now()
	if most := tr.rolledAtOnce(); most > functions/10 {
		t.Errorf("%d of %d functions were rolled out at the same time", most, functions)
	}
	world(t).unbroken(t)
	tr.must(world(t).client.DeleteAllOf(t.Context(), &v1beta1.Function{}, client.InNamespace(tr.ns)))
	tr.must(world(t).client.Delete(t.Context(), class))
	quiet(t, []*trial{tr})
}

// reached waits until a class reports that the wanted number of its functions run, or are
// starting, with its spec; and until it is rolled out if all are wanted.
func (tr *trial) reached(class *v1beta1.FunctionClass, functions, want int) {
	tr.t.Helper()
	tr.await(func() error {
		if err := world(tr.t).client.Get(tr.t.Context(), client.ObjectKeyFromObject(class), class); err != nil {
			return err
		}
		rolledOut := meta.FindStatusCondition(class.Status.Conditions, v1beta1.ConditionRolledOut)
		if rolledOut == nil || rolledOut.ObservedGeneration != class.Generation || class.Status.Functions != int32(functions) ||
			class.Status.UpdatedFunctions < int32(want) || want == functions && rolledOut.Status != metav1.ConditionTrue {
			return fmt.Errorf("class %s says %+v", class.Name, class.Status)
		}
		return nil
	})
}

// rolledAtOnce returns the maximum number of Deployments that had pods of two templates, or
// none of the latest, at the same time since the faults began. It fails the test for those that
// had no serving pod.
func (tr *trial) rolledAtOnce() (most int) {
	tr.t.Helper()
	all := world(tr.t).witness.ofKind("Deployment", tr.ns)
	slices.SortFunc(all, func(a, b version) int { return cmp.Compare(number(a), number(b)) })
	rolling := map[string]bool{}
	for _, v := range all {
		if v.seen.Before(tr.begun) {
			continue
		}
		var d appsv1.Deployment
		tr.must(runtime.DefaultUnstructuredConverter.FromUnstructured(v.Object, &d))
		if d.Status.ReadyReplicas == 0 {
			tr.t.Errorf("Function %s did not serve at version %d of its Deployment", d.Name, number(v))
		}
		delete(rolling, d.Name)
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas < *d.Spec.Replicas || s.Replicas > s.UpdatedReplicas {
			rolling[d.Name] = true
		}
		most = max(most, len(rolling))
	}
	return most
}
