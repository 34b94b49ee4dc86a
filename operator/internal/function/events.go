package function

import (
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/status"
)

// Reasons of events that are not reasons of conditions.
const (
	// eventRestarted reports a replica that has exited and is restarted.
	eventRestarted = "Restarted"

	// eventReferenceChanged reports a rollout for a changed value that the environment or the files
	// refer to.
	eventReferenceChanged = "ReferenceChanged"

	// eventVerified reports that a rollout was verified and continues. eventNotVerified reports that
	// it continues although it could not be verified.
	eventVerified    = "Verified"
	eventNotVerified = "NotVerified"
)

// history contains, for each Function, the state that events have been recorded for, so that no
// event is recorded twice, and the time of a status that is not written yet. The state at the start of the operator counts as recorded.
type history struct {
	byFunction sync.Map // of *recorded, by the names of Functions
}

// of returns the recorded state of a Function. On the first call, that is the current state.
func (h *history) of(fn *v1beta1.Function, seen status.Seen) *recorded {
	key := client.ObjectKeyFromObject(fn)
	if known, ok := h.byFunction.Load(key); ok && known.(*recorded).uid == fn.UID {
		return known.(*recorded)
	}
	r := &recorded{uid: fn.UID}
	if end := status.LatestEnd(fn, seen.Snapshot.Pods); end != nil {
		r.ended = end.At
	}
	if ready := conditionOf(fn, v1beta1.ConditionReady); ready.Status == metav1.ConditionTrue {
		r.ready = ready.ObservedGeneration
	}
	h.byFunction.Store(key, r)
	return r
}

// forget removes the state of a deleted Function.
func (h *history) forget(fn types.NamespacedName) { h.byFunction.Delete(fn) }

// recorded is the state of a Function that events have been recorded for.
type recorded struct {
	uid types.UID

	// ended is the time of the last recorded exit of a replica.
	ended time.Time

	// ready is the last generation that was recorded as ready; 0 after a warning.
	ready int64

	// changed is when the status began to differ from the one in the API server; zero if it does not
	// differ.
	changed time.Time
}

// announce records an event when the Function becomes ready or is stopped, when it is stalled for a
// new reason, and when it becomes degraded. There is no event when a function sleeps or wakes, or
// becomes ready again after its pods were moved or restarted, because that is frequent.
func (r *Reconciler) announce(fn, before *v1beta1.Function, last *recorded) {
	if now := conditionOf(fn, v1beta1.ConditionDegraded); now.Reason != "" && now.Reason != conditionOf(before, v1beta1.ConditionDegraded).Reason {
		r.warn(fn, now.Reason, now.Message)
	}
	is, was := conditionOf(fn, v1beta1.ConditionReady), conditionOf(before, v1beta1.ConditionReady)
	switch {
	case was.Status == is.Status && (was.Message == is.Message || was.Reason == v1beta1.ReasonAsleep || is.Reason == v1beta1.ReasonAsleep):
	case is.Status == metav1.ConditionTrue && last.ready != fn.Generation:
		r.Events.Eventf(fn, nil, corev1.EventTypeNormal, is.Reason, "Reconcile", "%s", is.Message)
		last.ready = fn.Generation
	case meta.IsStatusConditionTrue(fn.Status.Conditions, v1beta1.ConditionStalled), is.Reason == v1beta1.ReasonBuildFailed:
		r.warn(fn, is.Reason, is.Message)
		last.ready = 0
	}
}

// announceRollout records an event when the pods are replaced because ConfigMaps or Secrets that
// their environment or files refer to have changed (see desired.References).
func (r *Reconciler) announceRollout(fn *v1beta1.Function, seen status.Seen) {
	before, known := desired.ValuesIn(seen.Snapshot.Applied())
	now, _ := desired.ValuesIn(seen.Plan.Deployment)
	if !known || seen.Plan.Deployment == nil || seen.Plan.DeploymentDelay > 0 || seen.Outcome.Err != nil || now == before || len(seen.Snapshot.Values.Changed) == 0 {
		return
	}
	r.Events.Eventf(fn, nil, corev1.EventTypeNormal, eventReferenceChanged, "Reconcile",
		"%s changed; rolling out the function", strings.Join(seen.Snapshot.Values.Changed, " and "))
}

// announceVerification records an event and counts the result when a verified rollout continues or
// was rolled back. The event of a rollback is that of the condition Stalled.
func (r *Reconciler) announceVerification(fn *v1beta1.Function, seen status.Seen) {
	v := seen.Plan.Verification
	if v == nil || !v.Decided || seen.Plan.DeploymentDelay > 0 || seen.Outcome.Err != nil {
		return
	}
	r.Metrics.Verified(string(v.Result))
	switch v.Result {
	case plan.VerificationPassed:
		r.Events.Eventf(fn, nil, corev1.EventTypeNormal, eventVerified, "Reconcile", "%s", v.Message)
	case plan.VerificationRolledBack:
		if seen.Plan.Problem != nil || len(seen.Plan.Diagnostics) > 0 { // which Stalled reports
			r.warn(fn, v1beta1.ReasonRolledBack, v.Message)
		}
	case plan.VerificationInconclusive:
		r.warn(fn, eventNotVerified, v.Message)
	}
}

// announceEnds records an event when a replica has exited and is restarted, unless the status
// reports that this happens repeatedly. The event relates to the current state of the pod, because
// the recorder merges events that relate to the same object and keeps only the first message.
func (r *Reconciler) announceEnds(fn *v1beta1.Function, next v1beta1.FunctionStatus, seen status.Seen, last *recorded) {
	end := status.LatestEnd(fn, seen.Snapshot.Pods)
	if end == nil || !end.At.After(last.ended) {
		return
	}
	last.ended = end.At
	if ready := meta.FindStatusCondition(next.Conditions, v1beta1.ConditionReady); ready.Reason != v1beta1.ReasonCrashLooping {
		r.warnOf(fn, end.Pod, eventRestarted, end.Message)
	}
}

// announcePodProblem records an event about a problem that prevents the pods from serving, when
// Ready begins to report it.
func (r *Reconciler) announcePodProblem(fn, before *v1beta1.Function, seen status.Seen) {
	problem := status.PodProblem(fn, seen)
	if problem != nil && strings.Contains(conditionOf(fn, v1beta1.ConditionReady).Message, problem.Message) &&
		!strings.Contains(conditionOf(before, v1beta1.ConditionReady).Message, problem.Message) {
		r.warn(fn, problem.Reason, problem.Message)
	}
}

// conditionOf returns a condition of a Function; an empty one if it does not exist.
func conditionOf(fn *v1beta1.Function, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(fn.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// maxNote is the maximum length of the note of an event, in bytes. The API server rejects longer
// ones.
const maxNote = 1024

// warn records a warning. Warnings with the same reason within some minutes are merged into one
// event with a count.
func (r *Reconciler) warn(fn *v1beta1.Function, reason, message string) {
	r.warnOf(fn, nil, reason, message)
}

// warnOf records a warning that relates to another object; related may be nil.
func (r *Reconciler) warnOf(fn *v1beta1.Function, related runtime.Object, reason, message string) {
	if len(message) > maxNote {
		message = strings.ToValidUTF8(message[:maxNote-3], "") + "..."
	}
	r.Events.Eventf(fn, related, corev1.EventTypeWarning, reason, "Reconcile", "%s", message)
}
