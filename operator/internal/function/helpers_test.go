package function_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apiservertest"
	"goless.io/operator/internal/desired"
)

const hello = `package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello")) }
`

func template(name string) *v1beta1.Function {
	fn := &v1beta1.Function{}
	fn.Name = name
	fn.Spec = v1beta1.FunctionSpec{Function: hello, Service: "svc", ServerPort: 9000}
	return fn
}

func create(t *testing.T, name string, change func(*v1beta1.Function)) *v1beta1.Function {
	t.Helper()
	fn := template(name)
	change(fn)
	if fn.Namespace == "" {
		fn.Namespace = apiservertest.NewNamespace(t, cluster)
	}
	if err := cluster.Create(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	return fn
}

func change(t *testing.T, fn *v1beta1.Function, edit func(*v1beta1.Function)) {
	t.Helper()
	now := get(t, fn)
	patch := client.MergeFrom(now.DeepCopy())
	edit(now)
	if err := cluster.Patch(t.Context(), now, patch); err != nil {
		t.Fatal(err)
	}
}

// overwrite updates an object regardless of changes since it was read.
func overwrite(t *testing.T, object client.Object) {
	t.Helper()
	object.SetResourceVersion("")
	if err := cluster.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, fn *v1beta1.Function) *v1beta1.Function {
	t.Helper()
	var now v1beta1.Function
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(fn), &now); err != nil {
		t.Fatal(err)
	}
	return &now
}

func has(t *testing.T, fn *v1beta1.Function, condition string) bool {
	t.Helper()
	return meta.IsStatusConditionTrue(get(t, fn).Status.Conditions, condition)
}

// awaitReady waits until Ready has the reason for the latest generation.
func awaitReady(t *testing.T, fn *v1beta1.Function, reason string) metav1.Condition {
	t.Helper()
	var ready metav1.Condition
	eventually(t, "Ready has the reason "+reason, func() bool {
		now := get(t, fn)
		c := meta.FindStatusCondition(now.Status.Conditions, v1beta1.ConditionReady)
		if c == nil {
			return false
		}
		ready = *c
		return c.Reason == reason && c.ObservedGeneration == now.Generation
	})
	return ready
}

func exists(t *testing.T, fn *v1beta1.Function, name string, object client.Object) bool {
	t.Helper()
	err := cluster.Get(t.Context(), client.ObjectKey{Namespace: fn.Namespace, Name: name}, object)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return err == nil
}

// await waits until an object exists and, unless holds is nil, until holds returns true.
func await[T client.Object](t *testing.T, fn *v1beta1.Function, name string, object T, holds func(T) bool) T {
	t.Helper()
	eventually(t, fmt.Sprintf("%T %s is as expected", object, name), func() bool {
		return exists(t, fn, name, object) && (holds == nil || holds(object))
	})
	return object
}

var eventually = apiservertest.Eventually

// reconciles returns the number of reconciles of all controllers in this process.
func reconciles(t *testing.T) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var total float64
	for _, family := range families {
		if family.GetName() == "controller_runtime_reconcile_total" {
			for _, metric := range family.GetMetric() {
				total += metric.GetCounter().GetValue()
			}
		}
	}
	return total
}

func ownedByApply[T client.Object](object T) bool {
	for _, entry := range object.GetManagedFields() {
		if entry.Manager == "goless-operator" && entry.Operation == metav1.ManagedFieldsOperationUpdate {
			return false
		}
	}
	return true
}

// about returns the writes in the namespace of a Function.
func about(all []string, fn *v1beta1.Function) []string {
	var kept []string
	for _, write := range all {
		if strings.Contains(write, "/"+fn.Namespace+"/") {
			kept = append(kept, write)
		}
	}
	return kept
}

// serve sets the status of the Deployment, like its controller, until the Function is ready.
func serve(t *testing.T, fn *v1beta1.Function) {
	t.Helper()
	deployment := await(t, fn, fn.Name, &appsv1.Deployment{}, ownedByApply)
	eventually(t, fn.Name+" is ready", func() bool {
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(fn), deployment); err != nil {
			t.Fatal(err)
		}
		before := client.MergeFrom(deployment.DeepCopy())
		n := *deployment.Spec.Replicas
		deployment.Status = appsv1.DeploymentStatus{
			ObservedGeneration: deployment.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		}
		if err := cluster.Status().Patch(t.Context(), deployment, before); err != nil {
			t.Fatal(err)
		}
		return has(t, fn, v1beta1.ConditionReady)
	})
}

// remove deletes an object at once, as the garbage collector does.
func remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := cluster.Delete(t.Context(), object, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
}

func sourceOf(fn *v1beta1.Function, text string) string {
	return desired.ConfigMapName(fn, desired.Revision(text))
}
