package status

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/workload"
)

// report is the content of the builder's termination message. The builder documents this format;
// the tests use its golden files.
type report struct {
	Reason      string               `json:"reason"`
	Message     string               `json:"message"`
	Diagnostics []v1beta1.Diagnostic `json:"diagnostics"`
	Omitted     int32                `json:"omitted"`
	Output      string               `json:"output"`
	Warnings    []v1beta1.Diagnostic `json:"warnings"`
	Duration    string               `json:"duration"`
	Toolchain   string               `json:"toolchain"`
}

// reported parses a report of the build service.
func reported(text []byte) outcome {
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		return outcome{reason: v1beta1.ReasonBuildFailed, message: "the build service returned an invalid report"}
	}
	return r.outcome(0)
}

// terminated returns the outcome of an init container that has exited. It has no report if the
// kernel has killed all of its processes.
func terminated(ended *corev1.ContainerStateTerminated) outcome {
	var r report
	if err := json.Unmarshal([]byte(ended.Message), &r); err == nil && r.Reason != "" {
		return r.outcome(ended.ExitCode)
	}
	switch {
	case ended.ExitCode == 0:
		return compiled
	case ended.Reason == "OOMKilled":
		return outcome{reason: v1beta1.ReasonBuildOutOfMemory, message: "the compiler ran out of memory: simplify the source (large constants, deeply nested types), or raise spec.build.resources.limits.memory"}
	}
	return outcome{
		reason:  v1beta1.ReasonBuildFailed,
		message: fmt.Sprintf("the builder exited with code %d (%s) without a report; see its log", ended.ExitCode, ended.Reason),
	}
}

// maxDiagnostics is more than a report of the builder can contain.
const maxDiagnostics = 100

// outcome returns the outcome of a report. It does not trust the report, because any client that
// can create pods can write one.
func (r *report) outcome(exitCode int32) outcome {
	switch r.Reason {
	case v1beta1.ReasonBuilt, v1beta1.ReasonInvalidSource, v1beta1.ReasonCompileFailed, v1beta1.ReasonBuildTimeout,
		v1beta1.ReasonBuildOutOfMemory, v1beta1.ReasonBuildFailed, v1beta1.ReasonTestsFailed:
	default:
		return outcome{reason: v1beta1.ReasonBuildFailed, message: workload.OneLine("the builder reported a reason that this operator does not know: " + r.Reason)}
	}
	if r.Reason == v1beta1.ReasonBuilt && exitCode != 0 {
		return outcome{reason: v1beta1.ReasonBuildFailed, message: fmt.Sprintf("the builder reported success but exited with code %d", exitCode)}
	}
	r.Duration, r.Toolchain = workload.OneLine(r.Duration), workload.OneLine(r.Toolchain)
	r.Output = lastLines(r.Output)
	r.Diagnostics, r.Warnings = printable(r.Diagnostics), printable(r.Warnings)
	return outcome{reason: r.Reason, message: r.text(), report: r}
}

func printable(diagnostics []v1beta1.Diagnostic) []v1beta1.Diagnostic {
	diagnostics = diagnostics[:min(len(diagnostics), maxDiagnostics)]
	for i := range diagnostics {
		diagnostics[i].File, diagnostics[i].Message = workload.OneLine(diagnostics[i].File), workload.OneLine(diagnostics[i].Message)
	}
	return diagnostics
}

func (r *report) text() string {
	switch {
	case len(r.Diagnostics) > 0 && r.Reason != v1beta1.ReasonTestsFailed:
		return summary(r.Diagnostics, r.Omitted)
	case len(r.Warnings) > 0:
		return warned(workload.OneLine(r.Message), r.Warnings)
	case r.Message == "":
		return "the builder reported " + r.Reason + " without a message"
	}
	return workload.OneLine(r.Message)
}
