package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/workload"
)

// view contains the observed state of a Function, and what is derived from it about its latest
// revision.
type view struct {
	fn       *v1beta1.Function
	seen     Seen
	revision string

	// build is the outcome for the Built condition, and newest is the outcome of the newest
	// attempt.
	build, newest outcome
}

func (v *view) sourceValid() metav1.Condition {
	if d := v.seen.Plan.Diagnostics; len(d) > 0 {
		return condition(v1beta1.ConditionSourceValid, metav1.ConditionFalse, v1beta1.ReasonInvalidSource, summary(d, v.seen.Plan.Omitted))
	}
	if v.seen.Snapshot.CheckErr != nil {
		return condition(v1beta1.ConditionSourceValid, metav1.ConditionUnknown, v1beta1.ReasonApplyFailed, "the Function could not be validated")
	}
	return condition(v1beta1.ConditionSourceValid, metav1.ConditionTrue, v1beta1.ReasonValid, "the source parses and declares the handler")
}

func (v *view) built() metav1.Condition {
	if len(v.seen.Plan.Diagnostics) > 0 {
		return condition(v1beta1.ConditionBuilt, metav1.ConditionFalse, v1beta1.ReasonInvalidSource, "the source is invalid and is not compiled")
	}
	if v.seen.Plan.Problem != nil && v.revision == "" {
		return condition(v1beta1.ConditionBuilt, metav1.ConditionUnknown, v1beta1.ReasonInvalidSpec, "the spec is invalid, and nothing is compiled")
	}
	if v.seen.Snapshot.CheckErr != nil && v.revision == "" {
		return condition(v1beta1.ConditionBuilt, metav1.ConditionUnknown, v1beta1.ReasonApplyFailed, "the Function could not be validated, and nothing is compiled")
	}
	status := metav1.ConditionFalse
	switch v.build.reason {
	case v1beta1.ReasonBuilt:
		status = metav1.ConditionTrue
	case v1beta1.ReasonBuilding, v1beta1.ReasonTesting, v1beta1.ReasonStopped:
		status = metav1.ConditionUnknown
	}
	return condition(v1beta1.ConditionBuilt, status, v.build.reason, v.build.message)
}

func (v *view) available() metav1.Condition {
	d := v.seen.Outcome.Deployment
	ready := d != nil && d.Status.ReadyReplicas > 0
	switch {
	case v.othersAnswer() != "":
		return condition(v1beta1.ConditionAvailable, metav1.ConditionUnknown, v1beta1.ReasonNotOwned, v.othersAnswer())
	case ready && v.seen.Outcome.Service == nil:
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoService, "no Service selects the replicas")
	case v.sleepingOrWaking():
		return condition(v1beta1.ConditionAvailable, metav1.ConditionTrue, v1beta1.ReasonAsleep, asleep)
	case ready:
		message := serving(v.readyRevision())
		if n := d.Status.ReadyReplicas; n < v.want() {
			message += fmt.Sprintf("; %d of %d replicas are ready", n, v.want()) // of all revisions
		}
		return condition(v1beta1.ConditionAvailable, metav1.ConditionTrue, v1beta1.ReasonServing, message)
	case v.revisionByActivator() != "":
		message := serving(v.revisionByActivator()) + " through the activator, although no pod is ready"
		if problem, _ := v.podProblem(); problem != nil {
			message += ": " + problem.Message
		}
		return condition(v1beta1.ConditionAvailable, metav1.ConditionTrue, v1beta1.ReasonServing, message)
	case v.fn.Stopped():
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonStopped, "spec.replicas is 0")
	case v.asleep():
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoActivator, v.noActivator())
	case v.wakeFailed() != "":
		return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonWakeFailed, v.wakeFailed())
	}
	return condition(v1beta1.ConditionAvailable, metav1.ConditionFalse, v1beta1.ReasonNoReadyReplica, "no replica is ready")
}

// othersAnswer reports that objects with the names that the Function needs serve requests and do
// not belong to it, so the source that serves is unknown; empty if they do not.
func (v *view) othersAnswer() string {
	d, service := v.seen.Outcome.Deployment, v.seen.Outcome.Service
	var others []string
	if d == nil && v.seen.Outcome.ForeignDeployment != nil {
		d = v.seen.Outcome.ForeignDeployment
		others = append(others, fmt.Sprintf("Deployment %q", d.Name))
	}
	if service == nil && v.seen.Outcome.ForeignService != nil {
		service = v.seen.Outcome.ForeignService
		others = append(others, fmt.Sprintf("Service %q", service.Name))
	}
	if len(others) == 0 || d == nil || service == nil || d.Status.ReadyReplicas == 0 ||
		len(service.Spec.Selector) == 0 || !labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels)) {
		return ""
	}
	return fmt.Sprintf("a replica serves through %s, which the Function does not own; its revision is unknown", strings.Join(others, " and "))
}

// ready returns the Ready condition, which is derived from everything else. The second result
// reports whether only the user can make it True.
func (v *view) ready() (metav1.Condition, bool) {
	no := func(reason, message string) metav1.Condition {
		return condition(v1beta1.ConditionReady, metav1.ConditionFalse, reason, message+v.stillServing())
	}
	rolledBack := v.latestRolledBack()
	switch problem := v.seen.Problem(); {
	case problem != nil && (!rolledBack || problem != v.seen.Plan.OverLimits):
		return no(v.seen.Problem().Reason, v.seen.Problem().Message), true
	case len(v.seen.Plan.Diagnostics) > 0:
		return no(v1beta1.ReasonInvalidSource, summary(v.seen.Plan.Diagnostics, v.seen.Plan.Omitted)), true
	case v.seen.Outcome.Err != nil:
		return no(v1beta1.ReasonApplyFailed, workload.OneLine(v.seen.Outcome.Err.Error())), false
	case rolledBack:
		return no(v1beta1.ReasonRolledBack, workload.OneLine("the latest spec was rolled back: "+v.seen.Plan.Verification.Message+"; change it to try again")), true
	case v.complete() && v.hasWantedReplicas() && v.fn.Stopped():
		return condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonStopped, "spec.replicas is 0; no pod runs"), false
	case v.complete() && v.sleepingOrWaking():
		return condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonAsleep, asleep), false
	case v.complete() && v.asleep():
		return no(v1beta1.ReasonNoActivator, v.noActivator()), false
	case v.complete():
		return condition(v1beta1.ConditionReady, metav1.ConditionTrue, v1beta1.ReasonServing, serving(v.revision)), false
	case v.newest.failed():
		return no(v.newest.reason, v.newest.message), v.newest.userMustAct()
	}
	if ended := v.crash(); ended != nil && !v.awaitsTests() {
		message := fmt.Sprintf("the function exited with code %d: %s", ended.ExitCode, workload.ExitReason(v.fn, ended))
		return no(v1beta1.ReasonCrashLooping, message), true
	}
	reason, message := v1beta1.ReasonRollingOut, v.rollout()
	if v.newest.inProgress() && (v.seen.Outcome.Deployment == nil || v.seen.Outcome.Deployment.DeletionTimestamp == nil) {
		reason, message = v.newest.reason, v.newest.message
	}
	if verifying := v.verifying(); verifying != "" {
		reason, message = v1beta1.ReasonVerifying, verifying
	}
	if why := v.wakeFailed(); why != "" && v.build.reason == v1beta1.ReasonBuilt {
		reason, message = v1beta1.ReasonWakeFailed, why
	}
	if v.overdue() {
		return no(v1beta1.ReasonProgressDeadlineExceeded, fmt.Sprintf("no replica became ready within %d seconds: %s", deadline(v.seen.Outcome.Deployment), message)), true
	}
	return no(reason, message), false
}

// awaitsTests reports whether the latest version waits for its tests, or they have failed. Pods with the
// same source then belong to the previous version.
func (v *view) awaitsTests() bool {
	o := v.seen.Plan.Build
	return o != nil && o.Tests != nil
}

// degraded lists the missing optional parts, with the reason of the first.
func (v *view) degraded() metav1.Condition {
	var reason string
	var messages []string
	for _, problem := range v.lacks() {
		reason = cmp.Or(reason, problem.Reason)
		messages = append(messages, problem.Message)
	}
	return condition(v1beta1.ConditionDegraded, metav1.ConditionTrue, reason, workload.OneLine(strings.Join(messages, "; ")))
}

// latestRolledBack reports whether the latest spec was rolled back.
func (v *view) latestRolledBack() bool {
	verification := v.seen.Plan.Verification
	return verification != nil && verification.RejectedRecord != ""
}

// verifying returns the message while a replica of the latest spec is being verified; empty otherwise.
func (v *view) verifying() string {
	verification := v.seen.Plan.Verification
	if verification == nil || verification.Until.IsZero() || v.latestDeployment() == nil {
		return ""
	}
	return "a replica of the latest spec is ready and is verified until " + verification.Until.UTC().Format(time.RFC3339)
}

// complete reports whether the latest spec is serving: all pods have the latest template, at least
// one of them is available or the function sleeps (even without an activator), and the Service is
// the one in the spec. After the rollout, the number of pods does not matter, unless it should be
// 0.
func (v *view) complete() bool {
	d := v.latestDeployment()
	if d == nil || !v.hasService() {
		return false
	}
	if v.seen.Plan.Build != nil && v.newestOutcome().reason != v1beta1.ReasonBuilt {
		return false // the pods compile, or the binary of the build service is not ready
	}
	if v.hasWantedReplicas() && (v.want() > 0 || v.fn.Stopped()) {
		return true
	}
	return (d.Status.AvailableReplicas > 0 || v.asleepLatest()) && v.rolledOut()
}

// latestDeployment returns the Deployment if it has the latest source and the planned pod template,
// if one is planned; nil otherwise.
func (v *view) latestDeployment() *appsv1.Deployment {
	d, planned := v.seen.Outcome.Deployment, desired.TemplateIn(v.seen.Plan.Deployment)
	if d == nil || d.DeletionTimestamp != nil || desired.RevisionOf(&d.Spec.Template) != v.revision ||
		planned != "" && planned != desired.TemplateOf(&d.Spec.Template) {
		return nil
	}
	return d
}

// hasService reports whether the Service in the spec exists.
func (v *view) hasService() bool {
	service := v.seen.Outcome.Service
	return service != nil && service.DeletionTimestamp == nil && service.Name == v.fn.ServiceName()
}

// hasWantedReplicas reports whether the number of pods is the desired one, and all of them have the
// latest template and are available.
func (v *view) hasWantedReplicas() bool {
	d := v.seen.Outcome.Deployment
	return d != nil && workload.Replicas(d) == v.want() && workload.AllAvailable(d)
}

// rolledOut reports whether the rollout of the latest template is complete. The Deployment
// controller reports this with the condition Progressing, which does not change with the number of
// replicas.
//
// If observedGeneration lags, Progressing may describe the previous template. It is trusted only if
// the ReplicaSet of the current rollout has the latest template and an available pod (if the
// Deployment has any, and is not scaled to 0), and no other ReplicaSet has pods: then only the scale
// has changed.
func (v *view) rolledOut() bool {
	d := v.seen.Outcome.Deployment
	progressing := workload.Progressing(d)
	over := progressing.Status == corev1.ConditionTrue && progressing.Reason == workload.NewReplicaSetAvailable
	if !over || d.Status.UpdatedReplicas != d.Status.Replicas {
		return false
	}
	if d.Status.ObservedGeneration >= d.Generation {
		return true
	}
	latest, number := false, d.Annotations[desired.RolloutAnnotation]
	for _, rs := range v.seen.Snapshot.ReplicaSets {
		switch {
		case number != "" && isCurrent(d, &rs):
			latest = rs.Status.AvailableReplicas > 0 || d.Status.AvailableReplicas == 0 || workload.Replicas(d) == 0
		case rs.Status.Replicas > 0:
			return false
		}
	}
	return latest
}

// readyRevision returns the revision that has a ready replica: the latest revision if it has one,
// otherwise the newest. If the cache does not contain its ReplicaSet yet, and while the function
// sleeps, the revision in the status is kept.
func (v *view) readyRevision() string {
	d := v.seen.Outcome.Deployment
	switch {
	case d == nil:
		return ""
	case d.Status.ReadyReplicas == 0 && !v.asleep():
		return v.revisionByActivator()
	case v.complete():
		return v.revision
	case d.Status.ReadyReplicas == 0:
		return v.fn.Status.ReadyRevision
	}
	ready, newest := "", time.Time{}
	for _, rs := range v.seen.Snapshot.ReplicaSets {
		revision := desired.RevisionOf(&rs)
		switch {
		case rs.Status.ReadyReplicas == 0:
		case revision == v.revision:
			return revision
		case ready == "" || rs.CreationTimestamp.After(newest):
			ready, newest = revision, rs.CreationTimestamp.Time
		}
	}
	if ready == "" {
		return v.fn.Status.ReadyRevision
	}
	return ready
}

// stillServing returns the end of a message about an error: which older revision still serves.
func (v *view) stillServing() string {
	if r := v.readyRevision(); r != "" && r != v.revision && (!v.asleep() || v.sleepingOrWaking()) {
		return fmt.Sprintf("; revision %s continues to serve", r)
	}
	return ""
}

// serving returns a message about the revision that serves. The revision is empty if the cache does
// not contain its ReplicaSet yet.
func serving(revision string) string {
	if revision == "" {
		return "a replica is serving"
	}
	return fmt.Sprintf("revision %s is serving", revision)
}

// scaling returns the condition Reconciling of a ready Function that does not have the desired
// number of replicas.
func (v *view) scaling() metav1.Condition {
	message := v.rollout()
	if v.newest.failed() {
		message = v.newest.message
	} else if ended := v.crash(); ended != nil {
		message = fmt.Sprintf("a replica exited with code %d: %s", ended.ExitCode, workload.ExitReason(v.fn, ended))
	}
	return condition(v1beta1.ConditionReconciling, metav1.ConditionTrue, v1beta1.ReasonScaling, message)
}
