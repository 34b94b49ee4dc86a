package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// report is what the builder leaves in its termination message. It is a wire
// format: the builder documents it, and its golden files are tested here.
type report struct {
	Reason      string               `json:"reason"`
	Message     string               `json:"message"`
	Diagnostics []v1beta1.Diagnostic `json:"diagnostics"`
	Omitted     int32                `json:"omitted"`
	Warnings    []v1beta1.Diagnostic `json:"warnings"`
	Duration    string               `json:"duration"`
	Toolchain   string               `json:"toolchain"`
}

// outcome is how far the compile of the latest revision has come.
type outcome struct {
	reason, message string
	report          *report
}

func (o outcome) failed() bool {
	return o.reason != "" && o.reason != v1beta1.ReasonBuilt && o.reason != v1beta1.ReasonBuilding && o.reason != v1beta1.ReasonStopped
}

// userMustAct is false for a BuildFailed, which is nobody's fault who wrote the
// source: the kubelet tries it again.
func (o outcome) userMustAct() bool { return o.failed() && o.reason != v1beta1.ReasonBuildFailed }

// builtOutcome is for the Built condition. One success is enough, and stays as
// it was first told: every replica compiles, and equal sources compile equally.
// A failure stays as long as there is no attempt that could tell otherwise.
func (v *view) builtOutcome() outcome {
	attempts, told := v.attempts(), outcome{}
	if v.fn.Status.LatestRevision == v.revision {
		told = v.told()
	}
	if told.reason == v1beta1.ReasonBuilt {
		return v.withReport(told, attempts)
	}
	for _, o := range attempts {
		if o.reason == v1beta1.ReasonBuilt {
			return o
		}
	}
	switch {
	case v.complete() && v.fn.WantedReplicas() > 0:
		return outcome{reason: v1beta1.ReasonBuilt, message: "the source has compiled"}
	case told.failed() && len(attempts) == 0 && told.reason != v1beta1.ReasonInvalidSource && (v.seen.Ordered == nil || v.failedBefore()):
		return told
	}
	return v.newestOutcome()
}

// attempts are how the compiles of the latest revision went, or how far they are,
// the newest first: one in each pod, or one in the build service.
func (v *view) attempts() []outcome {
	if o := v.seen.Ordered; o != nil {
		if len(o.Report) == 0 {
			return nil
		}
		return []outcome{reported(o.Report)}
	}
	var all []outcome
	for _, pod := range v.latestPods() {
		all = append(all, podOutcome(&pod))
	}
	return all
}

// withReport adds the report of an attempt to a success that was told without one:
// the Deployment may be seen to be complete before its pods are.
func (v *view) withReport(told outcome, attempts []outcome) outcome {
	if before := v.fn.Status.Build; before != nil && before.Revision == v.revision {
		return told
	}
	for _, o := range attempts {
		if o.reason == v1beta1.ReasonBuilt && o.report != nil {
			return o
		}
	}
	return told
}

// newestOutcome is how far the newest attempt at the latest revision has come.
func (v *view) newestOutcome() outcome {
	if attempts := v.attempts(); len(attempts) > 0 {
		return decisive(attempts)
	}
	if o := v.seen.Ordered; o != nil {
		if v.failedBefore() && !o.Running {
			return v.told()
		}
		return o.outcome()
	}
	if v.fn.WantedReplicas() == 0 {
		return outcome{reason: v1beta1.ReasonStopped, message: "spec.replicas is 0: the source is compiled when a replica starts"}
	}
	if why := obstacle(v.seen.Deployment); why != "" {
		return outcome{reason: v1beta1.ReasonBuilding, message: why}
	}
	return outcome{reason: v1beta1.ReasonBuilding, message: "waiting for a pod to compile the source"}
}

// decisive is the newest attempt, unless that is under way and one before it has
// failed: where an update is scaled that does not compile, nothing new comes of it.
func decisive(attempts []outcome) outcome {
	over := slices.IndexFunc(attempts, func(o outcome) bool { return o.reason != v1beta1.ReasonBuilding })
	if over > 0 && attempts[over].failed() {
		return attempts[over]
	}
	return attempts[0]
}

// failedBefore tells whether it is known already that the latest revision does not
// compile: an operator that has just started asks again.
func (v *view) failedBefore() bool {
	before := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionBuilt)
	return before != nil && before.ObservedGeneration == v.fn.Generation && v.fn.Status.LatestRevision == v.revision && v.told().failed()
}

// told is what the Built condition says.
func (v *view) told() outcome {
	before := meta.FindStatusCondition(v.fn.Status.Conditions, v1beta1.ConditionBuilt)
	if before == nil {
		return outcome{}
	}
	return outcome{reason: before.Reason, message: before.Message}
}

// outcome is for an order without a report.
func (o *Ordered) outcome() outcome {
	switch {
	case o.Running:
		return outcome{reason: v1beta1.ReasonBuilt, message: "the source has compiled"}
	case o.Trouble != "":
		return outcome{reason: v1beta1.ReasonBuilding, message: oneLine(o.Trouble)}
	}
	return outcome{reason: v1beta1.ReasonBuilding, message: "waiting for the build service to compile the source"}
}

// reported reads a report of the build service.
func reported(text []byte) outcome {
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return outcome{reason: v1beta1.ReasonBuildFailed, message: "the build service leaves a report that cannot be read"}
	}
	return r.outcome(0)
}

// latestPods are the pods of the latest revision, made from the latest template
// of the Deployment, the newest first. What a pod that has been ended tells of
// its build is that it was ended.
func (v *view) latestPods() []corev1.Pod {
	template := ""
	if d := v.seen.Deployment; d != nil {
		template = desired.TemplateOf(&d.Spec.Template)
	}
	pods := slices.DeleteFunc(slices.Clone(v.seen.Pods), func(pod corev1.Pod) bool {
		return desired.RevisionOf(&pod) != v.revision || desired.TemplateOf(&pod) != template ||
			pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodFailed
	})
	slices.SortFunc(pods, func(a, b corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return pods
}

func podOutcome(pod *corev1.Pod) outcome {
	for _, c := range pod.Status.InitContainerStatuses {
		if c.Name != desired.BuildContainer {
			continue
		}
		ended := c.State.Terminated
		if ended == nil {
			ended = c.LastTerminationState.Terminated
		}
		switch {
		case ended != nil:
			return ending(ended)
		case c.State.Running != nil:
			return outcome{reason: v1beta1.ReasonBuilding, message: "compiling"}
		case c.State.Waiting != nil && c.State.Waiting.Message != "":
			return outcome{reason: v1beta1.ReasonBuilding, message: waiting(c.State.Waiting)}
		}
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return outcome{reason: v1beta1.ReasonBuilding, message: oneLine("the pod is not scheduled: " + c.Message)}
		}
	}
	return outcome{reason: v1beta1.ReasonBuilding, message: "starting the builder"}
}

// ending reads how the init container ended. Where the kernel killed all of it,
// there is no report to read.
func ending(ended *corev1.ContainerStateTerminated) outcome {
	var r report
	if err := json.Unmarshal([]byte(ended.Message), &r); err == nil && r.Reason != "" {
		return r.outcome(ended.ExitCode)
	}
	switch {
	case ended.ExitCode == 0:
		return outcome{reason: v1beta1.ReasonBuilt, message: "the source has compiled"}
	case ended.Reason == "OOMKilled":
		return outcome{reason: v1beta1.ReasonBuildOutOfMemory, message: "the compiler ran out of memory: simplify the source, large constants and deeply nested types before all"}
	}
	return outcome{
		reason:  v1beta1.ReasonBuildFailed,
		message: fmt.Sprintf("the builder ended with exit code %d (%s) and left no report: see its log", ended.ExitCode, ended.Reason),
	}
}

// maxDiagnostics is more than a report of the builder can hold.
const maxDiagnostics = 100

// outcome believes a report no more than it must: whoever may make pods can write
// one.
func (r *report) outcome(exitCode int32) outcome {
	switch r.Reason {
	case v1beta1.ReasonBuilt, v1beta1.ReasonInvalidSource, v1beta1.ReasonCompileFailed, v1beta1.ReasonBuildTimeout,
		v1beta1.ReasonBuildOutOfMemory, v1beta1.ReasonBuildFailed:
	default:
		return outcome{reason: v1beta1.ReasonBuildFailed, message: oneLine("the builder reports what this operator does not know: " + r.Reason)}
	}
	if r.Reason == v1beta1.ReasonBuilt && exitCode != 0 {
		return outcome{reason: v1beta1.ReasonBuildFailed, message: fmt.Sprintf("the builder reports success and ended with exit code %d", exitCode)}
	}
	r.Duration, r.Toolchain = oneLine(r.Duration), oneLine(r.Toolchain)
	r.Diagnostics, r.Warnings = printable(r.Diagnostics), printable(r.Warnings)
	return outcome{reason: r.Reason, message: r.text(), report: r}
}

func printable(diagnostics []v1beta1.Diagnostic) []v1beta1.Diagnostic {
	diagnostics = diagnostics[:min(len(diagnostics), maxDiagnostics)]
	for i := range diagnostics {
		diagnostics[i].File, diagnostics[i].Message = oneLine(diagnostics[i].File), oneLine(diagnostics[i].Message)
	}
	return diagnostics
}

func (r *report) text() string {
	switch {
	case len(r.Diagnostics) > 0:
		return summary(r.Diagnostics, r.Omitted)
	case len(r.Warnings) > 0:
		return warned(oneLine(r.Message), r.Warnings)
	case r.Message == "":
		return "the builder reports no more than " + r.Reason
	}
	return oneLine(r.Message)
}

// buildStatus tells of the latest compile; of the one before while a compile is
// under way and has nothing to tell.
func (v *view) buildStatus() *v1beta1.BuildStatus {
	if d := v.seen.Diagnostics; len(d) > 0 {
		return &v1beta1.BuildStatus{Diagnostics: d, Omitted: v.seen.Omitted}
	}
	before := v.fn.Status.Build
	if before != nil && before.Revision != v.revision {
		before = nil
	}
	// Every replica compiles, and every failure is tried again; what is told of
	// it changes only when the diagnostics do, or the reason.
	if r := v.build.report; r != nil && (before == nil || !slices.Equal(before.Diagnostics, r.Diagnostics) || v.told().reason != r.Reason) {
		return &v1beta1.BuildStatus{
			Revision: v.revision, Diagnostics: r.Diagnostics, Omitted: r.Omitted, Warnings: r.Warnings,
			Duration: r.Duration, Toolchain: r.Toolchain,
		}
	}
	return before
}
