package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// A change of a class reaches its functions in a staged rollout: no request is lost, at most a
// tenth of them is rolled out at a time, and the class reports the progress. With FULL=1 there
// are 200 functions, and the test runs alone.
func TestClass(t *testing.T) {
	functions, rolling := 5, 1
	if os.Getenv("FULL") != "" {
		functions, rolling = 200, 20
	} else {
		t.Parallel()
	}
	ns := newNamespace(t)
	// Pods that the class changes first must not preempt others on a full node.
	priority := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: ns.name}, Value: 7, PreemptionPolicy: new(corev1.PreemptNever)}
	createInCluster(t, priority)
	class := &v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{
		Name: ns.name, Annotations: map[string]string{v1beta1.DefaultClassAnnotation: "true"},
	}}
	class.Spec = v1beta1.FunctionClassSpec{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns.name}},
		Resources:         v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("1m"))}}, // all of them fit on a node
	}
	createInCluster(t, class)
	var all []*v1beta1.Function
	for i := range functions {
		all = append(all, ns.apply(function(fmt.Sprintf("classified-%d", i), answering("served"))))
	}
	var urls []string
	for _, fn := range all {
		ns.answers(ns.ready(fn), "served")
		urls = append(urls, url(fn))
	}
	load := ns.loadOf(caller, 100, urls...)

	before := client.MergeFrom(class.DeepCopy())
	class.Spec.PriorityClassName = priority.Name
	class.Spec.Tolerations = []corev1.Toleration{{Key: "functions", Operator: corev1.TolerationOpExists}}
	class.Spec.PodUser = &v1beta1.PodUser{RunAsUser: new(int64(1234)), RunAsGroup: new(int64(1234))}
	if err := cluster.Patch(t.Context(), class, before); err != nil {
		t.Fatal(err)
	}
	for i := range all {
		ns.eventually(fmt.Sprintf("the class is rolled out to %d functions", i+1), func() error {
			if now := ns.rollingOut(); len(now) > rolling {
				t.Errorf("%d of %d functions are rolled out at the same time:\n%s", len(now), functions, strings.Join(now, "\n"))
			}
			return reached(class, i+1, functions)
		})
	}
	load.stop()
	for _, fn := range all {
		fn = ns.ready(fn)
		ns.answers(fn, "served")
		pod := ns.onlyPod(fn)
		if pod.Spec.PriorityClassName != priority.Name || *pod.Spec.SecurityContext.RunAsUser != 1234 {
			t.Errorf("the pod of %s does not match the class: %+v", fn.Name, pod.Spec)
		}
	}
}

// createInCluster creates a cluster-scoped object, and deletes it after the test.
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

// rollingOut returns the Deployments of the namespace whose latest template does not have all
// its pods yet, or that have other pods. They are read in one request, because rollouts end and
// begin before the status of the Functions changes.
func (ns *namespace) rollingOut() (rolling []string) {
	ns.t.Helper()
	var all appsv1.DeploymentList
	if err := cluster.List(context.Background(), &all, client.InNamespace(ns.name)); err != nil {
		ns.t.Fatal(err)
	}
	for _, d := range all.Items {
		s, want := d.Status, *d.Spec.Replicas
		if s.ObservedGeneration < d.Generation || s.UpdatedReplicas < want || s.Replicas > s.UpdatedReplicas {
			rolling = append(rolling, fmt.Sprintf("%s, generation %d, wants %d replicas: %+v", d.Name, d.Generation, want, s))
		}
	}
	return rolling
}

// reached returns an error until a class reports that the wanted number of its functions run,
// or are starting, with its spec; and until it is rolled out if all are wanted.
func reached(class *v1beta1.FunctionClass, want, functions int) error {
	var now v1beta1.FunctionClass
	if err := cluster.Get(context.Background(), client.ObjectKeyFromObject(class), &now); err != nil {
		return err
	}
	rolledOut := meta.FindStatusCondition(now.Status.Conditions, v1beta1.ConditionRolledOut)
	if rolledOut == nil || rolledOut.ObservedGeneration != now.Generation || now.Status.Functions != int32(functions) || now.Status.UpdatedFunctions < int32(want) ||
		want == functions && rolledOut.Status != metav1.ConditionTrue {
		return fmt.Errorf("it says %+v", now.Status)
	}
	return nil
}
