package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/workload"
)

// testAttempts returns the outcome of compiling or running tests; none while there is no result. It
// keeps what the status contains about the build of the source.
func (v *view) testAttempts(o *plan.BuildState) []outcome {
	var result outcome
	switch {
	case o.Tests.Result != "":
		result = testsEnded(o.Tests)
	case o.Tests.Job == "" && len(o.Tests.Answer.Report) > 0 && o.Tests.Answer.Binary == nil:
		result = reported(o.Tests.Answer.Report)
	default:
		return nil
	}
	if result.report != nil {
		built := report{}
		if before := v.fn.Status.Build; before != nil && before.Revision == v.revision {
			built = report{Warnings: before.Warnings, Duration: before.Duration, Toolchain: before.Toolchain}
		}
		if source := reported(o.Report).report; source != nil {
			built = *source
		}
		result.report.Warnings, result.report.Duration, result.report.Toolchain = built.Warnings, built.Duration, built.Toolchain
	}
	return []outcome{result}
}

// testsEnded returns the outcome of tests that have failed or could not run.
func testsEnded(tests *plan.Tests) outcome {
	ended := workload.TestsEnd(tests.Pod)
	switch {
	case tests.Result != plan.TestsFailed:
	case tests.Pod != nil && workload.OverLimits(tests.Pod):
		return outcome{reason: v1beta1.ReasonTestsFailed, message: workload.OneLine("the tests wrote too much to the disk: " + tests.Pod.Status.Message)}
	case ended == nil:
		return outcome{reason: v1beta1.ReasonTestsFailed, message: tests.Message}
	}
	var r report
	isReport := ended != nil && json.Unmarshal([]byte(ended.Message), &r) == nil && r.Message != ""
	if tests.Result == plan.TestsNotRun {
		message := fmt.Sprintf("the tests did not run and are tried again: Job %q: %s", tests.Job, tests.Message)
		switch {
		case isReport:
			message += "; " + r.Message
		case ended != nil:
			message += fmt.Sprintf("; exit code %d: %s", ended.ExitCode, lastLine(ended.Message))
		case podWaits(tests) != "":
			message += "; " + podWaits(tests)
		}
		return outcome{reason: v1beta1.ReasonBuildFailed, message: workload.OneLine(message)}
	}
	if !isReport || r.Reason != v1beta1.ReasonTestsFailed {
		r = report{Output: ended.Message, Message: fmt.Sprintf("the tests exited with code %d without a result", ended.ExitCode)}
	}
	if ended.Reason == "OOMKilled" {
		r.Message = "the tests ran out of memory: raise spec.build.resources.limits.memory"
	}
	r.Reason = v1beta1.ReasonTestsFailed
	return r.outcome(ended.ExitCode)
}

// testsWait returns what tests wait for.
func testsWait(tests *plan.Tests) string {
	if tests.Job == "" {
		return "the source has compiled; waiting for the build service to compile its tests"
	}
	message := fmt.Sprintf("waiting for Job %q to run the tests", tests.Job)
	if waits := cmp.Or(podWaits(tests), tests.Message); waits != "" {
		message += "; " + waits
	}
	return workload.OneLine(message)
}

// podWaits returns why the pod of tests has not started; empty if it has, or if there is none.
func podWaits(tests *plan.Tests) string {
	if tests.Pod == nil {
		return ""
	}
	for _, c := range tests.Pod.Status.ContainerStatuses {
		if c.State.Waiting != nil && c.State.Waiting.Message != "" {
			return waiting(c.State.Waiting)
		}
	}
	return unscheduled(tests.Pod)
}

// maxOutput is the maximum length of the output of tests in the status, in bytes.
const maxOutput = 2048

// lastLines returns the end of a text that tests have printed: whole lines of printable characters, at
// most maxOutput bytes.
func lastLines(text string) string {
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.TrimSpace(text))
	if len(text) <= maxOutput {
		return text
	}
	text = text[len(text)-maxOutput:]
	if _, rest, found := strings.Cut(text, "\n"); found {
		text = rest
	}
	return strings.ToValidUTF8(text, "")
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
