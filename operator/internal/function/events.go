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
	"goless.io/operator/internal/status"
)

// Reasons of events that are no reasons of conditions.
const (
	// eventRestarted is about a replica that has ended and is started again.
	eventRestarted = "Restarted"

	// eventReferenceChanged is about a rollout because a value of the environment has changed.
	eventReferenceChanged = "ReferenceChanged"
)

// history remembers for each Function what events have been recorded about, so that nothing is
// recorded twice. What was there when the operator started counts as recorded.
type history struct {
	byFunction sync.Map // of *recorded, by the names of Functions
}

// of returns what events of a Function have been recorded about. The first time that is everything
// that is seen of the Function now.
func (h *history) of(fn *v1beta1.Function, seen status.Seen) *recorded {
	key := client.ObjectKeyFromObject(fn)
	if known, ok := h.byFunction.Load(key); ok && known.(*recorded).uid == fn.UID {
		return known.(*recorded)
	}
	r := &recorded{uid: fn.UID}
	if end := status.LatestEnd(fn, seen.Pods); end != nil {
		r.ended = end.At
	}
	if ready := conditionOf(fn, v1beta1.ConditionReady); ready.Status == metav1.ConditionTrue {
		r.ready = ready.ObservedGeneration
	}
	h.byFunction.Store(key, r)
	return r
}

// forget drops what is known of a deleted Function.
func (h *history) forget(fn types.NamespacedName) { h.byFunction.Delete(fn) }

// recorded is what events of one Function have been recorded about.
type recorded struct {
	uid types.UID

	// ended is the time at which a replica ended that was last recorded.
	ended time.Time

	// ready is the generation that was last recorded to be ready; 0 after a warning.
	ready int64
}

// announce records an event when the Function has become ready, stopped included, when it is
// stalled for a new reason, and when it is degraded. There is no event when a function sleeps or
// wakes, or becomes ready again after its pods were moved or restarted: that happens all the time.
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
// their environment comes from have changed.
func (r *Reconciler) announceRollout(fn *v1beta1.Function, seen status.Seen) {
	before, known := desired.ValuesIn(seen.OwnedFields)
	now, _ := desired.ValuesIn(seen.Plan.Deployment)
	if !known || seen.Plan.Deployment == nil || seen.DeploymentDelay > 0 || seen.Err != nil || now == before || len(seen.Values.Changed) == 0 {
		return
	}
	r.Events.Eventf(fn, nil, corev1.EventTypeNormal, eventReferenceChanged, "Reconcile",
		"%s has changed: the function is rolled out anew", strings.Join(seen.Values.Changed, " and "))
}

// announceEnds records an event when a replica has ended by itself and is started again, unless
// the status says that they do so all the time. The event relates to the pod as it is now: of
// those that relate to the same, the recorder keeps the message of the first alone.
func (r *Reconciler) announceEnds(fn *v1beta1.Function, next v1beta1.FunctionStatus, seen status.Seen, last *recorded) {
	end := status.LatestEnd(fn, seen.Pods)
	if end == nil || !end.At.After(last.ended) {
		return
	}
	last.ended = end.At
	if ready := meta.FindStatusCondition(next.Conditions, v1beta1.ConditionReady); ready.Reason != v1beta1.ReasonCrashLooping {
		r.warnOf(fn, end.Pod, eventRestarted, end.Message)
	}
}

// announcePodProblem records an event about what keeps the pods from serving, when Ready says so
// and did not before.
func (r *Reconciler) announcePodProblem(fn, before *v1beta1.Function, seen status.Seen) {
	problem := status.PodProblem(fn, seen)
	if problem != nil && strings.Contains(conditionOf(fn, v1beta1.ConditionReady).Message, problem.Message) &&
		!strings.Contains(conditionOf(before, v1beta1.ConditionReady).Message, problem.Message) {
		r.warn(fn, problem.Reason, problem.Message)
	}
}

// conditionOf returns a condition of a Function; an empty one when there is none.
func conditionOf(fn *v1beta1.Function, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(fn.Status.Conditions, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// maxNote is the longest note of an event, in bytes: the API server refuses longer ones, and nobody
// would see the event.
const maxNote = 1024

// warn records a warning. Warnings with the same reason that follow within some minutes become one
// event, which counts them.
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
