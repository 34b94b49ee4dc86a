package e2e

import (
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// agree fails the test unless kstatus, kubectl wait and the cluster itself say
// about a Function what its status says. It is for a Function that has settled:
// that is ready, or stalled.
func (ns *namespace) agree(fn *v1beta1.Function) {
	ns.t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("Function"))
	get(ns, fn.Name, live)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, fn); err != nil {
		ns.t.Fatal(err)
	}
	ready := holds(fn, v1beta1.ConditionReady)

	if err := kstatusAgrees(fn, live); err != nil {
		ns.t.Errorf("Function %s: %v", fn.Name, err)
	}
	out, err := kubectl(ns.t.Context(), "-n", ns.name, "wait", "--for=condition=Ready", "function/"+fn.Name, "--timeout=0s")
	if (err == nil) != ready {
		ns.t.Errorf("Function %s: Ready is %t and kubectl wait says %q", fn.Name, ready, out)
	}
	lacking := ns.lacking(fn)
	if ready && lacking != nil {
		ns.t.Errorf("Function %s is Ready and the cluster is not: %v", fn.Name, lacking)
	}
	if !ready && lacking == nil {
		ns.t.Errorf("Function %s is not Ready, for %q, and the latest spec is what runs", fn.Name, condition(fn, v1beta1.ConditionReady).Message)
	}
	pods, services := len(ns.readyPods(fn, "")), ns.services(fn)
	if available := holds(fn, v1beta1.ConditionAvailable); available != (pods > 0 && services > 0) {
		ns.t.Errorf("Function %s: Available is %t, with %d ready pods and %d Services", fn.Name, available, pods, services)
	}
}

// services is how many Services belong to a Function.
func (ns *namespace) services(fn *v1beta1.Function) int {
	ns.t.Helper()
	var list corev1.ServiceList
	if err := ns.client.List(ns.t.Context(), &list, client.InNamespace(ns.name)); err != nil {
		ns.t.Fatal(err)
	}
	n := 0
	for _, service := range list.Items {
		if metav1.IsControlledBy(&service, fn) {
			n++
		}
	}
	return n
}

// kstatusAgrees compares what kstatus makes of a Function with its conditions.
func kstatusAgrees(fn *v1beta1.Function, raw *unstructured.Unstructured) error {
	want := kstatus.InProgressStatus
	switch {
	case fn.DeletionTimestamp != nil:
		want = kstatus.TerminatingStatus
	case fn.Status.ObservedGeneration != fn.Generation:
	case holds(fn, v1beta1.ConditionStalled):
		want = kstatus.FailedStatus
	case holds(fn, v1beta1.ConditionReady):
		want = kstatus.CurrentStatus
	}
	got, err := kstatus.Compute(raw)
	if err != nil {
		return err
	}
	if got.Status != want {
		return fmt.Errorf("kstatus says %s (%s), the conditions mean %s", got.Status, got.Message, want)
	}
	return nil
}

// lacking is what the cluster lacks of the spec of a Function: nil when the
// latest source is what serves, at full strength.
func (ns *namespace) lacking(fn *v1beta1.Function) error {
	var deployment appsv1.Deployment
	if err := ns.client.Get(ns.t.Context(), client.ObjectKeyFromObject(fn), &deployment); err != nil {
		return err
	}
	want, s := fn.WantedReplicas(), deployment.Status
	if s.ObservedGeneration < deployment.Generation || *deployment.Spec.Replicas != want ||
		s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
		return fmt.Errorf("the Deployment has %+v, and %d replicas are wanted", s, want)
	}
	revision := deployment.Spec.Template.Labels[revisionLabel]
	if n := len(ns.readyPods(fn, revision)); n != int(want) {
		return fmt.Errorf("%d pods of revision %s are ready, and %d are wanted", n, revision, want)
	}
	var compiled corev1.ConfigMap
	if err := ns.client.Get(ns.t.Context(), client.ObjectKey{Namespace: ns.name, Name: fn.Name + "-" + revision}, &compiled); err != nil {
		return err
	}
	if compiled.Data["handler.go"] != fn.Spec.Function {
		return fmt.Errorf("revision %s, which serves, is not what spec.function says", revision)
	}
	var service corev1.Service
	if err := ns.client.Get(ns.t.Context(), client.ObjectKey{Namespace: ns.name, Name: fn.ServiceName()}, &service); err != nil {
		return err
	}
	if !metav1.IsControlledBy(&service, fn) {
		return fmt.Errorf("the Service %q is not the Function's", service.Name)
	}
	return nil
}

// readyPods are the pods of a Function that the API server shows as ready; of
// any revision if that is empty.
func (ns *namespace) readyPods(fn *v1beta1.Function, revision string) []corev1.Pod {
	labels := client.MatchingLabels{functionLabel: fn.Name}
	if revision != "" {
		labels[revisionLabel] = revision
	}
	var list corev1.PodList
	if err := ns.client.List(ns.t.Context(), &list, client.InNamespace(ns.name), labels); err != nil {
		ns.t.Fatal(err)
	}
	var ready []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && podReady(&pod) != nil {
			ready = append(ready, pod)
		}
	}
	return ready
}

// neverLied fails the test if there was a moment at which the status of a
// Function contradicted itself or the pods.
func (ns *namespace) neverLied() {
	stalled := map[string]string{}
	for _, fn := range versions[*v1beta1.Function](ns.witness) {
		if fn.DeletionTimestamp != nil {
			continue
		}
		key := fmt.Sprintf("%s of generation %d", fn.Name, fn.Status.ObservedGeneration)
		err := errors.Join(contradiction(fn), ns.prematurelyReady(fn), unstalled(stalled[key], fn))
		if err != nil {
			ns.t.Errorf("the status of %s lied: %v\n%s", key, err, yamlOf(fn.Status))
		}
		if holds(fn, v1beta1.ConditionStalled) {
			stalled[key] = condition(fn, v1beta1.ConditionStalled).Reason
		}
	}
}

// contradiction is where the conditions of a Function exclude each other.
func contradiction(fn *v1beta1.Function) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(fn)
	if err != nil {
		return err
	}
	if err := kstatusAgrees(fn, &unstructured.Unstructured{Object: object}); err != nil {
		return err
	}
	if fn.Status.ObservedGeneration < 0 {
		return nil // the operator has not seen it
	}
	signs := 0
	for _, kind := range []string{v1beta1.ConditionReady, v1beta1.ConditionReconciling, v1beta1.ConditionStalled} {
		if holds(fn, kind) {
			signs++
		}
	}
	if signs != 1 {
		return fmt.Errorf("%d of Ready, Reconciling and Stalled are true", signs)
	}
	for _, c := range fn.Status.Conditions {
		if c.ObservedGeneration != fn.Status.ObservedGeneration {
			return fmt.Errorf("condition %s is of generation %d", c.Type, c.ObservedGeneration)
		}
	}
	return nil
}

// prematurelyReady is that a Function called itself ready before a pod of the
// revision that it names was. Times are those that the cluster wrote down, in
// whole seconds; one second is for the clocks of two nodes.
func (ns *namespace) prematurelyReady(fn *v1beta1.Function) error {
	ready := condition(fn, v1beta1.ConditionReady)
	if ready.Status != metav1.ConditionTrue || ready.Reason == v1beta1.ReasonStopped {
		return nil
	}
	if s := fn.Status; s.ReadyRevision != s.LatestRevision || s.ReadyReplicas == 0 || !holds(fn, v1beta1.ConditionAvailable) || !holds(fn, v1beta1.ConditionBuilt) {
		return errors.New("it is Ready, and the rest of the status denies it")
	}
	for _, pod := range versions[*corev1.Pod](ns.witness) {
		if !of(fn, pod) || pod.Labels[revisionLabel] != fn.Status.LatestRevision {
			continue
		}
		if since := podReady(pod); since != nil && !since.LastTransitionTime.After(ready.LastTransitionTime.Add(1e9)) {
			return nil
		}
	}
	return fmt.Errorf("it is Ready, and no pod of revision %s was", fn.Status.LatestRevision)
}

// unstalled is that a Function gave up what only its user could have changed.
func unstalled(reason string, fn *v1beta1.Function) error {
	final := reason == v1beta1.ReasonCompileFailed || reason == v1beta1.ReasonInvalidSource
	if final && condition(fn, v1beta1.ConditionStalled).Reason != reason {
		return fmt.Errorf("it was stalled by %s, and then not", reason)
	}
	return nil
}
