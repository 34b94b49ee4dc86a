package faults

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

// truth fails the test if the status of the Function was ever wrong: if it was ready although
// its Deployment was never complete for the spec, if it was not ready although nothing was
// missing, or if it contradicted itself. All versions of all objects are in the order of etcd,
// so no clock is used.
func (tr *trial) truth() {
	tr.t.Helper()
	tr.noFalseAlarm()
	deployments := world(tr.t).witness.of("Deployment", tr.ns, subject)
	type life struct {
		uid        string
		generation int64
	}
	since := map[life]int64{} // when a spec came to be
	for _, v := range world(tr.t).witness.of("Function", tr.ns, subject) {
		fn, revision := tr.typed(v.Object), number(v)
		id := life{string(fn.UID), fn.Generation}
		if _, ok := since[id]; !ok {
			since[id] = revision
		}
		if v.deleted {
			continue
		}
		if fn.Status.ObservedGeneration == fn.Generation {
			if err := contradiction(fn); err != nil {
				tr.t.Errorf("%s: version %d: %v\n%s", tr.ns, revision, err, text(fn.Status))
			}
		}
		// A client that waits for a condition compares only the generation of that condition.
		ready := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != fn.Generation {
			continue
		}
		if !tr.everComplete(fn, deployments, since[id], revision) {
			tr.t.Errorf("%s: version %d of the Function is Ready, but its Deployment was never complete since version %d\n%s",
				tr.ns, revision, since[id], text(fn.Status))
		}
	}
}

// everComplete reports whether a Deployment matched a spec at any time between two versions.
func (tr *trial) everComplete(fn *v1beta1.Function, deployments []version, from, to int64) bool {
	type life struct {
		uid        types.UID
		generation int64
	}
	templates := map[life]corev1.PodTemplateSpec{}
	for i, v := range deployments {
		if v.deleted {
			continue
		}
		var d appsv1.Deployment
		tr.must(runtime.DefaultUnstructuredConverter.FromUnstructured(v.Object, &d))
		templates[life{d.UID, d.Generation}] = d.Spec.Template
		if superseded := i+1 < len(deployments) && number(deployments[i+1]) <= from; superseded || number(v) > to && !tr.behind {
			continue
		}
		// While a Deployment is annotated constantly, its controller is always behind, and the
		// ReplicaSets show that a rollout is complete before its status does. It is sufficient
		// that the controller has seen the template, and reports later that it served.
		if seen, ok := templates[life{d.UID, d.Status.ObservedGeneration}]; ok && equality.Semantic.DeepEqual(seen, d.Spec.Template) {
			d.Generation = d.Status.ObservedGeneration
		}
		if complete(fn, &d) {
			return true
		}
	}
	return false
}

// complete reports whether a Deployment has rolled out a spec: all pods have the latest
// template and some are available, or there is none if the spec wants none.
func complete(fn *v1beta1.Function, d *appsv1.Deployment) bool {
	want, s := *fn.Spec.Replicas, d.Status
	return metav1.IsControlledBy(d, fn) && d.DeletionTimestamp == nil &&
		d.Spec.Template.Labels["goless.io/revision"] == sourceRevision(fn.Spec.Function) &&
		s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == s.Replicas &&
		(s.AvailableReplicas > 0 || want == 0 && s.Replicas == 0)
}

// sourceRevision returns the name of the revision of a source.
func sourceRevision(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])[:10]
}

// contradiction returns how conditions contradict each other.
func contradiction(fn *v1beta1.Function) error {
	signs := 0
	for _, kind := range []string{v1beta1.ConditionReady, v1beta1.ConditionReconciling, v1beta1.ConditionStalled} {
		if c := meta.FindStatusCondition(fn.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue && c.Reason != v1beta1.ReasonScaling {
			signs++
		}
	}
	if signs != 1 {
		return fmt.Errorf("%d of Ready, Reconciling and Stalled are true", signs)
	}
	for _, c := range fn.Status.Conditions {
		if c.ObservedGeneration != fn.Generation {
			return fmt.Errorf("condition %s is of generation %d", c.Type, c.ObservedGeneration)
		}
	}
	return nil
}

// uninterrupted fails the test if a Deployment that served had no ready replica although it
// should have. Exceptions: a Function that was to be stopped ends once, even if it is started
// again by then; the pods of a Function that is deleted in the foreground are deleted before
// its Deployment; and some gaps are not caused by the operator, see miscounted.
func (tr *trial) uninterrupted() {
	tr.t.Helper()
	var before appsv1.Deployment
	stopping := false
	for _, v := range world(tr.t).witness.of("Deployment", tr.ns, subject) {
		var d appsv1.Deployment
		tr.must(runtime.DefaultUnstructuredConverter.FromUnstructured(v.Object, &d))
		stopped := *d.Spec.Replicas == 0
		stopping = stopping && d.UID == before.UID || stopped
		if d.Status.ReadyReplicas == 0 {
			ending := tr.deleted && d.DeletionTimestamp != nil
			if d.UID == before.UID && before.Status.ReadyReplicas > 0 && !stopping && !ending && !tr.miscounted(&d, number(v)) {
				tr.t.Errorf("%s: the function did not serve at version %d of its Deployment", tr.ns, number(v))
			}
			stopping = stopped
		}
		before = d
	}
}

// reachable fails the test if the Function had no Service after it once had one.
func (tr *trial) reachable() {
	tr.t.Helper()
	ended := tr.ends()
	services := world(tr.t).witness.ofKind("Service", tr.ns)
	slices.SortFunc(services, func(a, b version) int { return cmp.Compare(number(a), number(b)) })
	live := map[types.UID]int{} // by Function
	seen := map[types.UID]bool{}
	for _, v := range services {
		ref := metav1.GetControllerOf(v)
		if ref == nil || ref.Kind != "Function" || v.lost || seen[v.GetUID()] && !v.deleted {
			continue
		}
		seen[v.GetUID()] = true
		if !v.deleted {
			live[ref.UID]++
			continue
		}
		live[ref.UID]--
		if end, over := ended[ref.UID]; live[ref.UID] == 0 && (!over || number(v) < end) {
			tr.t.Errorf("%s: the function had no Service at version %d", tr.ns, number(v))
		}
	}
}

// ends returns the versions at which Functions were deleted.
func (tr *trial) ends() map[types.UID]int64 {
	tr.t.Helper()
	ended := map[types.UID]int64{}
	for _, v := range world(tr.t).witness.of("Function", tr.ns, subject) {
		if v.deleted || v.GetDeletionTimestamp() != nil {
			ended[v.GetUID()] = cmp.Or(ended[v.GetUID()], number(v))
		}
	}
	return ended
}

// unblamed fails the test if the Function ever reported that an object has another owner
// although none had. Objects of a deleted Function with the same name are about to be deleted.
func (tr *trial) unblamed() {
	tr.t.Helper()
	for _, v := range world(tr.t).witness.of("Function", tr.ns, subject) {
		fn := tr.typed(v.Object)
		ready := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionReady)
		if !tr.unowned && ready != nil && (ready.Reason == v1beta1.ReasonNotOwned || ready.Reason == v1beta1.ReasonServiceConflict) {
			tr.t.Errorf("%s: version %d reports another owner, although no object had one: %s", tr.ns, number(v), ready.Message)
			return
		}
	}
}

// number returns the position of a version in the order of etcd.
func number(v version) int64 { return revision(v) }
