package e2e

import (
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kstatus "sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// agree fails the test unless kstatus, kubectl wait and the cluster agree with the status of a
// Function. The Function must be ready or stalled. A busy kubelet may change a pod, so they may
// disagree briefly, until the operator has seen the change.
func (ns *namespace) agree(fn *v1beta1.Function) {
	ns.t.Helper()
	var first error
	ns.eventually("kstatus, kubectl wait and the cluster agree about Function "+fn.Name, func() error {
		err := ns.disagreement(fn.Name)
		if first == nil {
			first = err
		}
		return err
	})
	if first != nil {
		ns.t.Logf("they did not agree at first: %v", first)
	}
}

// disagreement returns the first disagreement about the Function of a name, or nil.
func (ns *namespace) disagreement(name string) error {
	ns.t.Helper()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(v1beta1.GroupVersion.WithKind("Function"))
	get(ns, name, live)
	fn := &v1beta1.Function{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(live.Object, fn); err != nil {
		return err
	}
	ready := holds(fn, v1beta1.ConditionReady)

	if err := kstatusAgrees(fn, live); err != nil {
		return err
	}
	out, err := kubectl(ns.t.Context(), "-n", ns.name, "wait", "--for=condition=Ready", "function/"+fn.Name, "--timeout=0s")
	if (err == nil) != ready {
		return fmt.Errorf("Ready is %t and kubectl wait says %q", ready, out)
	}
	lacking := ns.lacking(fn)
	if ready && lacking != nil {
		return fmt.Errorf("it is Ready and the cluster is not: %w", lacking)
	}
	if !ready && lacking == nil {
		return fmt.Errorf("it is not Ready, for %q, and the latest spec is what runs", condition(fn, v1beta1.ConditionReady).Message)
	}
	pods, services := len(ns.readyPods(fn, "")), ns.services(fn)
	asleep := pods == 0 && condition(fn, v1beta1.ConditionAvailable).Reason == v1beta1.ReasonAsleep
	if available := holds(fn, v1beta1.ConditionAvailable); available != ((pods > 0 || asleep) && services > 0) {
		return fmt.Errorf("Available is %t, with %d ready pods and %d Services", available, pods, services)
	}
	return nil
}

// services returns the number of Services of a Function.
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

// kstatusAgrees compares the result of kstatus for a Function with its conditions.
func kstatusAgrees(fn *v1beta1.Function, raw *unstructured.Unstructured) error {
	want := kstatus.InProgressStatus
	switch {
	case fn.DeletionTimestamp != nil:
		want = kstatus.TerminatingStatus
	case fn.Status.ObservedGeneration != fn.Generation:
	case holds(fn, v1beta1.ConditionStalled):
		want = kstatus.FailedStatus
	case holds(fn, v1beta1.ConditionReconciling):
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

// lacking returns how the cluster differs from the spec of a Function. It returns nil if all
// replicas serve the latest source.
func (ns *namespace) lacking(fn *v1beta1.Function) error {
	var deployment appsv1.Deployment
	if err := ns.client.Get(ns.t.Context(), client.ObjectKeyFromObject(fn), &deployment); err != nil {
		return err
	}
	want, s := *deployment.Spec.Replicas, deployment.Status
	if n, fixed := fn.FixedReplicas(); fixed {
		want = n
	}
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

// readyPods returns the ready pods of a Function, according to the API server; of all revisions
// if revision is empty.
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

// neverLied fails the test if the status of a Function ever contradicted itself or the pods.
func (ns *namespace) neverLied() {
	lies := ns.lies()
	// The witness may have seen a Function before the pod that its status refers to.
	for range 100 {
		if len(lies) == 0 {
			return
		}
		time.Sleep(100 * time.Millisecond)
		lies = ns.lies()
	}
	for _, err := range lies {
		ns.t.Error(err)
	}
}

func (ns *namespace) lies() []error {
	var lies []error
	stalled, left := map[string]string{}, map[string]bool{}
	for _, fn := range versions[*v1beta1.Function](ns.witness) {
		if fn.DeletionTimestamp != nil {
			continue
		}
		key := fmt.Sprintf("%s of generation %d", fn.Name, fn.Status.ObservedGeneration)
		before, now := stalled[key], condition(fn, v1beta1.ConditionStalled).Reason
		err := errors.Join(contradiction(fn), ns.prematurelyReady(fn))
		if now != before {
			left[key+before] = true
		}
		stalled[key] = now
		err = errors.Join(err, unstalled(before, now))
		if now != "" && left[key+now] {
			err = errors.Join(err, fmt.Errorf("it was stalled by %s, then not, and then again", now))
		}
		if err != nil {
			lies = append(lies, fmt.Errorf("the status of %s lied: %w\n%s", key, err, yamlOf(fn.Status)))
		}
	}
	return lies
}

// contradiction returns how the conditions of a Function contradict each other.
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
		if holds(fn, kind) && condition(fn, kind).Reason != v1beta1.ReasonScaling {
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

// prematurelyReady returns an error if a Function was ready before a pod of its revision was.
// The times come from the cluster and have whole seconds; one second is allowed for the clocks
// of two nodes.
func (ns *namespace) prematurelyReady(fn *v1beta1.Function) error {
	ready := condition(fn, v1beta1.ConditionReady)
	if ready.Status != metav1.ConditionTrue || ready.Reason == v1beta1.ReasonStopped {
		return nil
	}
	served := fn.Status.ReadyReplicas > 0 || ready.Reason == v1beta1.ReasonAsleep
	if s := fn.Status; s.ReadyRevision != s.LatestRevision || !served || !holds(fn, v1beta1.ConditionAvailable) || !holds(fn, v1beta1.ConditionBuilt) {
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

// unstalled returns an error if a Function stopped being stalled without a change by its user.
func unstalled(before, now string) error {
	final := before == v1beta1.ReasonCompileFailed || before == v1beta1.ReasonInvalidSource
	if final && now != before {
		return fmt.Errorf("it was stalled by %s, and then not", before)
	}
	return nil
}
