package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// A class reaches the functions of its namespaces in waves, while they serve: no request is
// lost, at most one of these few is rolled out at a time, and the class says when it has
// reached all.
func TestClass(t *testing.T) {
	t.Parallel()
	ns := newNamespace(t)
	object := &corev1.Namespace{}
	if err := cluster.Get(t.Context(), client.ObjectKey{Name: ns.name}, object); err != nil {
		t.Fatal(err)
	}
	before := client.MergeFrom(object.DeepCopy())
	object.Labels["goless-e2e-class"] = ns.name
	priority := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: ns.name}, Value: 7}
	class := &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{
		Name: ns.name, Annotations: map[string]string{v1beta1.DefaultClassAnnotation: "true"},
	}}
	class.Spec = v1beta1.FunctionClassSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"goless-e2e-class": ns.name}},
		PriorityClassName: priority.Name,
		Tolerations:       []corev1.Toleration{{Key: "functions", Operator: corev1.TolerationOpExists}},
		PodUser:           &v1beta1.PodUser{RunAsUser: new(int64(1234)), RunAsGroup: new(int64(1234))},
	}
	var all []*v1beta1.Function
	var loads []load
	for i := range 5 {
		fn := ns.ready(ns.apply(function(fmt.Sprintf("classified-%d", i), answering("served"))))
		ns.answers(fn, "served")
		all = append(all, fn)
		loads = append(loads, ns.loadAt(fn, 20))
	}

	if err := cluster.Patch(t.Context(), object, before); err != nil {
		t.Fatal(err)
	}
	createInCluster(t, priority)
	createInCluster(t, class)
	ns.eventually("the class has reached all functions", func() error {
		if n := ns.rollingOut(); n > 1 {
			t.Errorf("%d of 5 functions are rolled out at the same time", n)
		}
		return reached(class, len(all))
	})
	for _, l := range loads {
		l.stop()
	}
	for _, fn := range all {
		fn = ns.ready(fn)
		ns.answers(fn, "served")
		pod := ns.onlyPod(fn)
		if pod.Spec.PriorityClassName != priority.Name || *pod.Spec.SecurityContext.RunAsUser != 1234 {
			t.Errorf("the pod of %s is not as the class says: %+v", fn.Name, pod.Spec)
		}
	}
}

// createInCluster creates an object that has no namespace, and deletes it after the test.
func createInCluster(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Delete(context.Background(), object); err != nil {
			t.Error(err)
		}
	})
}

// rollingOut counts the Deployments of the namespace whose latest template does not have all its
// pods yet, or has others beside them. They are read at once: one that is over may be followed by
// the next while the Functions still say otherwise.
func (ns *namespace) rollingOut() (n int) {
	ns.t.Helper()
	var all appsv1.DeploymentList
	if err := cluster.List(context.Background(), &all, client.InNamespace(ns.name)); err != nil {
		ns.t.Fatal(err)
	}
	for _, d := range all.Items {
		s, want := d.Status, *d.Spec.Replicas
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas < want || s.Replicas > s.UpdatedReplicas || s.AvailableReplicas < want {
			n++
		}
	}
	return n
}

// reached returns an error until a class says that it has reached all its functions.
func reached(class *v1beta1.FunctionClass, functions int) error {
	var now v1beta1.FunctionClass
	if err := cluster.Get(context.Background(), client.ObjectKeyFromObject(class), &now); err != nil {
		return err
	}
	if !meta.IsStatusConditionTrue(now.Status.Conditions, v1beta1.ConditionReady) || now.Status.UpdatedFunctions != int32(functions) {
		return fmt.Errorf("it says %+v", now.Status)
	}
	return nil
}
