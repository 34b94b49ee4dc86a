package status_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/status"
)

// testPod returns a pod that runs tests, with the state of its container.
func testPod(state corev1.ContainerState) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: desired.FunctionContainer, State: state}}
	return pod
}

func ofTests(tests plan.Tests) plan.BuildState { return plan.BuildState{Tests: &tests} }

// The tests of a version are a part of its build, with reasons of their own.
func TestOfTests(t *testing.T) {
	const failed = `{"reason":"TestsFailed","message":"2 tests failed: TestA, TestB","diagnostics":[{"file":"a_test.go","line":7,"message":"TestA: got 1"}],"output":"--- FAIL: TestA\n"}`
	killed := ended(137, "--- FAIL: TestA\nallocating\n")
	killed.Terminated.Reason = "OOMKilled"
	pending, evicted := homeless(corev1.Pod{}), testPod(ended(137, ""))
	evicted.Status.Reason, evicted.Status.Message = "Evicted", "Usage of EmptyDir volume"
	end := func(result plan.TestResult, pod *corev1.Pod) plan.BuildState {
		return ofTests(plan.Tests{Job: "j", Result: result, Message: "past its deadline", Pod: pod})
	}
	compiled := plan.Tests{Answer: buildclient.Answer{Report: []byte(`{"reason":"CompileFailed","diagnostics":[{"file":"a_test.go","line":1,"message":"undefined: x"}]}`)}}
	for name, test := range map[string]struct {
		tests       plan.BuildState
		reason      string
		stalled     bool
		message     string
		diagnostics int
		output      string
	}{
		"Compiling":    {ofTests(plan.Tests{}), "Testing", false, "the source has compiled; waiting for the build service to compile its tests", 0, ""},
		"Unavailable":  {ofTests(plan.Tests{Answer: buildclient.Answer{Trouble: "refused"}}), "Testing", false, "refused", 0, ""},
		"Queued":       {ofTests(plan.Tests{Answer: buildclient.Answer{Waiting: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)}}), "Testing", false, "waiting since 2030-01-02T03:04:05Z", 0, ""},
		"NotCompiling": {ofTests(compiled), "CompileFailed", true, "a_test.go:1: undefined: x", 1, ""},
		"Running":      {ofTests(plan.Tests{Job: "j", Pod: &corev1.Pod{}}), "Testing", false, `waiting for Job "j" to run the tests`, 0, ""},
		"NoPod":        {ofTests(plan.Tests{Job: "j", Message: "no pod yet"}), "Testing", false, `waiting for Job "j" to run the tests; no pod yet`, 0, ""},
		"Unscheduled":  {ofTests(plan.Tests{Job: "j", Pod: &pending}), "Testing", false, "the pod is not scheduled: Insufficient cpu", 0, ""},
		"NoSecret":     {ofTests(plan.Tests{Job: "j", Pod: testPod(waiting("CreateContainerConfigError", `secret "s" not found`))}), "Testing", false, `secret "s" not found`, 0, ""},
		"Failed":       {end(plan.TestsFailed, testPod(ended(1, failed))), "TestsFailed", true, "2 tests failed: TestA, TestB", 1, "--- FAIL: TestA"},
		"OutOfMemory":  {end(plan.TestsFailed, testPod(killed)), "TestsFailed", true, "the tests ran out of memory: raise spec.build.resources.limits.memory", 0, "--- FAIL: TestA\nallocating"},
		"NoResult":     {end(plan.TestsFailed, testPod(ended(1, "a\x00b\tc\n"))), "TestsFailed", true, "the tests exited with code 1 without a result", 0, "a?b\tc"},
		"Forged":       {end(plan.TestsFailed, testPod(ended(1, `{"reason":"Built","message":"ok"}`))), "TestsFailed", true, "exited with code 1 without a result", 0, `{"reason":"Built","message":"ok"}`},
		"InPod":        {ofTests(plan.Tests{Result: plan.TestsFailed, Message: "only the build service compiles tests"}), "TestsFailed", true, "only the build service compiles tests", 0, ""},
		"NoBinary":     {end(plan.TestsNotRun, testPod(ended(125, "launch: no binary"))), "BuildFailed", false, `the tests did not run and are tried again: Job "j": past its deadline; exit code 125: launch: no binary`, 0, ""},
		"FullDisk":     {end(plan.TestsNotRun, testPod(ended(126, `{"reason":"TestsFailed","message":"cannot run the tests: no space left"}`))), "BuildFailed", false, "past its deadline; cannot run the tests: no space left", 0, ""},
		"TooLate":      {end(plan.TestsNotRun, nil), "BuildFailed", false, "past its deadline", 0, ""},
		"OverLimits":   {end(plan.TestsFailed, evicted), "TestsFailed", true, "the tests wrote too much to the disk: Usage of EmptyDir volume", 0, ""},
		"NeverStarted": {end(plan.TestsNotRun, &pending), "BuildFailed", false, "past its deadline; the pod is not scheduled: Insufficient cpu", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(1)
			got := status.Of(fn, ordered(seen(deployment(1, 1, old), sets(old)), test.tests))
			truth := "SourceValid Available Reconciling"
			if test.stalled {
				truth = "SourceValid Available Stalled"
			}
			expect(t, got, test.reason, test.message, truth, old)
			invariants(t, fn, got)
			build := got.Build
			if build == nil {
				build = &v1beta1.BuildStatus{}
			}
			if len(build.Diagnostics) != test.diagnostics || build.Output != test.output {
				t.Errorf("the build is %+v", build)
			}
		})
	}
}

// failedTests returns the state of a build whose tests have failed with an output.
func failedTests(output string) plan.BuildState {
	return ofTests(plan.Tests{Job: "j", Result: plan.TestsFailed, Pod: testPod(ended(1, `{"reason":"TestsFailed","message":"TestA failed","diagnostics":[{"file":"a_test.go","line":7,"message":"no"}],"output":"`+output+`"}`))})
}

// The failures of tests stay in the status until there is another result, also while the operator that
// has just started does not know it yet, and do not stay after the tests have passed. The rest of the
// status of the build stays.
func TestFailedTestsInStatus(t *testing.T) {
	fn := function(1)
	before := seen(deployment(1, 1, old), sets(old))
	first := failedTests("FAIL")
	first.Report = []byte(`{"reason":"Built","duration":"80ms","toolchain":"go1"}`)
	fn.Status = status.Of(fn, ordered(before, first))
	restarted := status.Of(fn, ordered(before, plan.BuildState{}))
	expect(t, restarted, "TestsFailed", "TestA failed", "SourceValid Available Stalled", old)
	if restarted.Build.Output != "FAIL" {
		t.Errorf("after a restart, the build is %+v", restarted.Build)
	}
	if build := status.Of(fn, ordered(before, failedTests("again"))).Build; build.Output != "again" || build.Duration != "80ms" || build.Toolchain != "go1" {
		t.Errorf("after another run, the build is %+v", build)
	}
	again := status.Of(fn, ordered(before, ofTests(plan.Tests{Job: "j"})))
	expect(t, again, "Testing", "to run the tests", "SourceValid Available Reconciling", old)
	fn.Status = again
	passed := status.Of(fn, ordered(seen(deployment(1, 1, latest), sets(latest), sharedPod(latest)), plan.BuildState{PodsHaveBinary: true}))
	expect(t, passed, "Serving", "", "SourceValid Built Available Ready", latest)
	if len(passed.Build.Diagnostics) > 0 || passed.Build.Output != "" || passed.Build.Toolchain != "go1" {
		t.Errorf("after the tests have passed, the build is %+v", passed.Build)
	}
}

// The build of a version with another environment and the same source is not Built if its tests fail
// or do not compile.
func TestTestsOfSameSource(t *testing.T) {
	fn := function(1)
	serving := seen(deployment(1, 1, latest), sets(latest), sharedPod(latest))
	fn.Status = status.Of(fn, ordered(serving, plan.BuildState{PodsHaveBinary: true}))
	expect(t, status.Of(fn, ordered(serving, failedTests("FAIL"))), "TestsFailed", "TestA failed", "SourceValid Available Stalled", latest)
	wrong := ofTests(plan.Tests{Answer: buildclient.Answer{Report: []byte(`{"reason":"CompileFailed","message":"no"}`)}})
	expect(t, status.Of(fn, ordered(serving, wrong)), "CompileFailed", "no", "SourceValid Available Stalled", latest)
}

// A version that fixes one that crashes or does not become ready is not reported as such while its
// tests run.
func TestTestsOfFix(t *testing.T) {
	for _, d := range []*appsv1.Deployment{deployment(1, 0, latest), overdue(deployment(1, 0, latest))} {
		crashes := seen(d, nil, crashing(sharedPod(latest)))
		crashes.Snapshot.Time = time.Now().Add(24 * time.Hour) // after the progress deadline
		got := status.Of(function(1), ordered(crashes, ofTests(plan.Tests{Job: "j", Pod: &corev1.Pod{}})))
		expect(t, got, "Testing", "to run the tests", "SourceValid Reconciling", "")
	}
}

// Only the end of a long output is in the status, from the beginning of a line.
func TestLongOutputOfTests(t *testing.T) {
	output := strings.Repeat("0123456789\n", 300)
	failure := ofTests(plan.Tests{Job: "j", Result: plan.TestsFailed, Pod: testPod(ended(1, output+"end\n"))})
	got := status.Of(function(1), ordered(status.Seen{}, failure)).Build.Output
	if len(got) > 2048 || len(got) < 2030 || !strings.HasPrefix(got, "0123456789\n") || !strings.HasSuffix(got, "\nend") {
		t.Errorf("the output has %d bytes: %q", len(got), got)
	}
}
