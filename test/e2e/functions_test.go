package e2e

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// Labels of the objects of a Function, or of one of its revisions.
const (
	functionLabel = "goless.io/function"
	revisionLabel = "goless.io/revision"
)

func function(name, source string, set ...func(*v1beta1.FunctionSpec)) *v1beta1.Function {
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Name: name}}
	fn.Spec.Function = source
	for _, mutate := range set {
		mutate(&fn.Spec)
	}
	return fn
}

func source(text string) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) { spec.Function = text }
}

func replicas(n int32) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) { spec.Replicas = &n }
}

func historyLimit(n int32) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) { spec.RevisionHistoryLimit = &n }
}

func service(name string) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) { spec.Service = name }
}

func serverPort(port int32) func(*v1beta1.FunctionSpec) {
	return func(spec *v1beta1.FunctionSpec) { spec.ServerPort = port }
}

// answering returns a source that responds with text to every request.
func answering(text string) string {
	return fmt.Sprintf(`package handlers

import "net/http"

func Handler(w http.ResponseWriter, r *http.Request) {
	w.Write([]byte(%q))
}
`, text)
}

// url returns the URL of a Function in its cluster.
func url(fn *v1beta1.Function) string {
	return fmt.Sprintf("http://%s.%s.svc:%d", fn.ServiceName(), fn.Namespace, fn.Port())
}

// adminURL returns the URL of its metrics and probes.
func adminURL(fn *v1beta1.Function) string {
	return fmt.Sprintf("http://%s.%s.svc:%d", fn.ServiceName(), fn.Namespace, v1beta1.AdminPort)
}

// condition returns the condition of a type, or one without a status.
func condition(fn *v1beta1.Function, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(fn.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{Type: kind}
}

func holds(fn *v1beta1.Function, kind string) bool {
	return meta.IsStatusConditionTrue(fn.Status.Conditions, kind)
}

// of reports whether an object has the label of a Function.
func of(fn *v1beta1.Function, object client.Object) bool {
	return object.GetLabels()[functionLabel] == fn.Name
}

// pods returns the pods of a Function that are not terminating. It reads them from the API
// server, because the witness may see a Function before its pods.
func (ns *namespace) pods(fn *v1beta1.Function) []*corev1.Pod {
	ns.t.Helper()
	var list corev1.PodList
	if err := ns.client.List(ns.t.Context(), &list, client.InNamespace(ns.name), client.MatchingLabels{functionLabel: fn.Name}); err != nil {
		ns.t.Fatal(err)
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			pods = append(pods, &list.Items[i])
		}
	}
	return pods
}

// pod waits until a pod of a Function is ready, and returns it.
func (ns *namespace) pod(fn *v1beta1.Function) *corev1.Pod {
	ns.t.Helper()
	var found *corev1.Pod
	ns.until("a pod of Function "+fn.Name+" is ready", func() bool {
		if ready := ns.readyPods(fn, ""); len(ready) > 0 {
			found = &ready[0]
		}
		return found != nil
	})
	return found
}

// onlyPod waits until a Function with one replica has one ready pod and the pod of the previous
// template is gone. It returns the pod.
func (ns *namespace) onlyPod(fn *v1beta1.Function) *corev1.Pod {
	ns.t.Helper()
	var ready []corev1.Pod
	ns.until("one pod of Function "+fn.Name+" is ready", func() bool {
		ready = ns.readyPods(fn, "")
		return len(ready) == 1
	})
	return &ready[0]
}

func podReady(pod *corev1.Pod) *corev1.PodCondition {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return &c
		}
	}
	return nil
}
