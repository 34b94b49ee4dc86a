package status

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/workload"
)

// outcome is the result or the state of the build of the latest revision.
type outcome struct {
	reason, message string
	report          *report
}

// compiled is a success without a report.
var compiled = outcome{reason: v1beta1.ReasonBuilt, message: "the source compiled"}

func (o outcome) failed() bool {
	return o.reason != "" && o.reason != v1beta1.ReasonBuilt && !o.inProgress() && o.reason != v1beta1.ReasonStopped
}

// inProgress reports whether there is no result yet.
func (o outcome) inProgress() bool {
	return o.reason == v1beta1.ReasonBuilding || o.reason == v1beta1.ReasonTesting
}

// userMustAct reports whether only the user can fix the failure. It is false for BuildFailed, which
// the source does not cause and which is retried.
func (o outcome) userMustAct() bool { return o.failed() && o.reason != v1beta1.ReasonBuildFailed }

// builtOutcome returns the outcome for the Built condition. One success is sufficient, because
// every replica compiles and equal sources have equal results. The message of a success is kept,
// unless there was no report, which happens if the cache contained the complete Deployment before
// its pods. A failure is kept until the next attempt.
func (v *view) builtOutcome() outcome {
	if v.awaitsTests() {
		return v.newestOutcome()
	}
	attempts, before := v.attempts(), outcome{}
	if v.fn.Status.LatestRevision == v.revision {
		before = v.outcomeInStatus()
	}
	reported := v.fn.Status.Build != nil && v.fn.Status.Build.Revision == v.revision
	for _, o := range attempts {
		if o.reason == v1beta1.ReasonBuilt && (before.reason != v1beta1.ReasonBuilt || !reported && o.report != nil) {
			return o
		}
	}
	switch {
	case before.reason == v1beta1.ReasonBuilt:
		return before
	case v.complete() && v.seen.Outcome.Deployment.Status.AvailableReplicas > 0 && !v.fn.Stopped():
		return compiled
	case before.failed() && len(attempts) == 0 && before.reason != v1beta1.ReasonInvalidSource && (v.seen.Plan.Build == nil || v.failedBefore()):
		return before
	}
	return v.newestOutcome()
}

// attempts returns the outcomes of the builds of the latest revision, the newest first: one for
// each pod, or one of the build service. A binary that pods run has been compiled before.
func (v *view) attempts() (all []outcome) {
	switch o := v.seen.Plan.Build; {
	case o == nil:
	case o.Tests != nil:
		return v.testAttempts(o)
	case len(o.Report) > 0:
		return []outcome{reported(o.Report)}
	case o.PodsHaveBinary:
		return []outcome{compiled}
	default:
		return nil
	}
	for _, pod := range v.latestPods() {
		all = append(all, podOutcome(&pod, v.waitsBeforeBuild(&pod)))
	}
	return all
}

// newestOutcome returns the outcome of the newest build of the latest revision.
func (v *view) newestOutcome() outcome {
	if attempts := v.attempts(); len(attempts) > 0 {
		return attemptToReport(attempts)
	}
	if o := v.seen.Plan.Build; o != nil {
		if v.failedBefore() && (o.Tests == nil || o.Tests.Job == "") {
			return v.outcomeInStatus()
		}
		return withoutReport(o)
	}
	if v.fn.Stopped() {
		return outcome{reason: v1beta1.ReasonStopped, message: "spec.replicas is 0: the source is compiled when a replica starts"}
	}
	if why := v.podsNotCreated(); why != "" {
		return outcome{reason: v1beta1.ReasonBuilding, message: why}
	}
	return outcome{reason: v1beta1.ReasonBuilding, message: "waiting for a pod to compile the source"}
}

// attemptToReport returns the newest attempt, or an older one that has failed while the newest is
// still running: scaling a failed revision starts more builds of the same source, and the failure
// remains reported.
func attemptToReport(attempts []outcome) outcome {
	over := slices.IndexFunc(attempts, func(o outcome) bool { return o.reason != v1beta1.ReasonBuilding })
	if over > 0 && attempts[over].failed() {
		return attempts[over]
	}
	return attempts[0]
}

// failedBefore reports whether the status already reports that the latest revision does not
// compile, or that its tests failed. An operator that has just started requests the build again.
func (v *view) failedBefore() bool {
	before := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionBuilt)
	return before != nil && before.ObservedGeneration == v.fn.Generation && v.fn.Status.LatestRevision == v.revision && v.outcomeInStatus().failed()
}

// outcomeInStatus returns the outcome in the current Built condition.
func (v *view) outcomeInStatus() outcome {
	before := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionBuilt)
	if before == nil {
		return outcome{}
	}
	return outcome{reason: before.Reason, message: before.Message}
}

// withoutReport returns the outcome while neither the build service nor the tests have a result.
func withoutReport(o *plan.BuildState) outcome {
	answer, reason, waits := o.Answer, v1beta1.ReasonBuilding, "waiting for the build service to compile the source"
	if o.Tests != nil {
		answer, reason, waits = o.Tests.Answer, v1beta1.ReasonTesting, testsWait(o.Tests)
	}
	switch {
	case answer.Trouble != "":
		waits = workload.OneLine(answer.Trouble)
	case !answer.Waiting.IsZero(): // a duration would change the status with every reconcile
		waits = "waiting since " + answer.Waiting.UTC().Format(time.RFC3339) + " in the queue of the build service, behind other builds"
	}
	return outcome{reason: reason, message: waits}
}

// latestPods returns the pods of the latest revision and of the latest template of the Deployment,
// the newest first. Deleted and evicted pods are excluded, because their builds failed for that
// reason.
func (v *view) latestPods() []corev1.Pod {
	template := ""
	if d := v.seen.Outcome.Deployment; d != nil {
		template = desired.TemplateOf(&d.Spec.Template)
	}
	pods := slices.DeleteFunc(slices.Clone(v.seen.Snapshot.Pods), func(pod corev1.Pod) bool {
		return desired.RevisionOf(&pod) != v.revision || desired.TemplateOf(&pod) != template ||
			workload.Replaced(&pod)
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

// podOutcome returns the outcome of the build in a pod. waits is what the pod waits for before it
// compiles; empty if that is unknown.
func podOutcome(pod *corev1.Pod, waits string) outcome {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name != desired.BuildContainer {
			continue
		}
		switch ended := workload.LastEnd(&c); {
		case ended != nil:
			return terminated(ended)
		case c.State.Running != nil:
			return outcome{reason: v1beta1.ReasonBuilding, message: "compiling"}
		case c.State.Waiting != nil && c.State.Waiting.Message != "":
			return outcome{reason: v1beta1.ReasonBuilding, message: waiting(c.State.Waiting)}
		}
	}
	return outcome{reason: v1beta1.ReasonBuilding, message: cmp.Or(unscheduled(pod), waits, "starting the builder")}
}

// unscheduled returns the reason why a pod has no node yet; empty if it has one, or if the
// scheduler has not processed it.
func unscheduled(pod *corev1.Pod) string {
	if c := workload.Unscheduled(pod); c != nil {
		return workload.OneLine("the pod is not scheduled: " + c.Message)
	}
	return ""
}

// buildStatus describes the latest finished build.
func (v *view) buildStatus() *v1beta1.BuildStatus {
	if d := v.seen.Plan.Diagnostics; len(d) > 0 {
		return &v1beta1.BuildStatus{Diagnostics: d, Omitted: v.seen.Plan.Omitted}
	}
	before := v.fn.Status.Build
	if before != nil && before.Revision != v.revision {
		before = nil
	}
	// Every replica compiles, and every failure is retried: the status changes only if the
	// diagnostics or the reason change.
	if r := v.build.report; r != nil && (before == nil || !slices.Equal(before.Diagnostics, r.Diagnostics) || before.Output != r.Output || v.outcomeInStatus().reason != r.Reason) {
		return &v1beta1.BuildStatus{
			Revision: v.revision, Diagnostics: r.Diagnostics, Omitted: r.Omitted, Output: r.Output, Warnings: r.Warnings,
			Duration: r.Duration, Toolchain: r.Toolchain,
		}
	}
	if before != nil && v.build.reason == v1beta1.ReasonBuilt && (len(before.Diagnostics) > 0 || before.Output != "") { // left from failed tests that pass now
		passed := *before
		passed.Diagnostics, passed.Omitted, passed.Output = nil, 0, ""
		return &passed
	}
	return before
}
