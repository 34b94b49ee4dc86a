package plan

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/workload"
)

const (
	// testRecheck is the interval for reading the pod of running tests. Such pods are not watched.
	testRecheck = 10 * time.Second

	// testRetry is the time after which tests that could not run are tried again.
	testRetry = time.Minute
)

// Tests is the state of the tests of a version that waits for them.
type Tests struct {
	// Answer is the answer to the order for the tests, as long as there is no Job.
	Answer buildclient.Answer

	// Job is the name of the Job that runs them; empty while they are being compiled.
	Job string

	// Pod is the newest pod of the Job, as far as it is known.
	Pod *corev1.Pod

	// Result is the result of the Job; empty while the tests are compiled or run.
	Result TestResult

	// Message explains the Result, or says what the tests wait for. It is empty if Pod contains that.
	Message string
}

// TestResult is the result of tests that have not passed.
type TestResult string

// The results of tests. Tests that did not run are tried again.
const (
	TestsFailed TestResult = "Failed"
	TestsNotRun TestResult = "NotRun"
)

// neededTests returns the name of the Job whose tests must pass before a Function is rolled out; empty
// for none. A version that was rolled out before and is still recorded is not tested again.
func (p *planner) neededTests(fn *v1beta1.Function) string {
	applied := p.seen.Applied()
	if !fn.Tests() || desired.IsIntact(applied) && !p.hasOnlyWaitingPods(fn) && desired.RenderedFor(fn, p.settings, applied) {
		return ""
	}
	spec := desired.SpecHashWithoutValues(fn, p.settings)
	if slices.ContainsFunc(p.seen.Records, func(record appsv1.ControllerRevision) bool { return desired.RecordedSpec(&record) == spec }) {
		return ""
	}
	return desired.TestJobName(fn, p.settings)
}

// planTests plans the next step of running the tests of a Function whose source has compiled. It
// returns the state of the build with that of the tests; nil if they have passed.
//
// The Job holds the result. If someone deletes it, the tests run again. It is deleted after the version
// was applied.
func (p *planner) planTests(fn *v1beta1.Function, build *BuildState) *BuildState {
	tests := &Tests{}
	state := &BuildState{Tests: tests}
	if build != nil {
		state.Answer = build.Answer
	}
	run := p.testRun()
	if run == nil {
		p.startTests(fn, tests)
		return state
	}
	p.planTestPolicy(fn, run.Job.Spec.Template.Labels)
	tests.Job, tests.Pod = run.Job.Name, run.Pod
	ended, failed := workload.TestsEnd(run.Pod), run.Failed()
	switch {
	case run.Passed(), ended != nil && ended.ExitCode == 0: // a sidecar may keep the Job running
		return nil
	case workload.TestsHaveFailed(run.Pod):
		tests.Result = TestsFailed
	case failed != nil && run.Pod == nil && testsFailedBefore(fn): // the pod has been deleted since
		tests.Result, tests.Message = TestsFailed, meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionBuilt).Message
	case run.PodErr != nil:
		tests.Message = run.PodErr.Error()
		p.TestDelay, p.TestOrder, p.DoubtOrders = testRecheck, fn, true
	case failed == nil:
		p.TestDelay, p.TestOrder, p.DoubtOrders = testRecheck, fn, true
		if run.Pod == nil && p.seen.Time.Sub(run.Job.CreationTimestamp.Time) >= testRecheck {
			tests.Message = "it has no pod yet; kubectl describe job " + run.Job.Name + " may list the reason"
		}
	default:
		tests.Result, tests.Message = TestsNotRun, failed.Message
		p.retryTests(run, failed)
	}
	return state
}

// testsFailedBefore reports whether the tests of a Function have failed according to its status.
func testsFailedBefore(fn *v1beta1.Function) bool {
	c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionBuilt)
	return c != nil && c.Reason == v1beta1.ReasonTestsFailed && c.ObservedGeneration == fn.Generation
}

// startTests orders the binary with the tests of a Function and plans the Job that runs it.
func (p *planner) startTests(fn *v1beta1.Function, tests *Tests) {
	p.TestOrder = fn
	tests.Answer = p.seen.Answers[desired.OrderName(fn, true)]
	if tests.Answer.Binary != nil {
		p.TestJob = desired.TestJob(fn, p.settings, tests.Answer.Binary)
		tests.Job = *p.TestJob.Name
		p.planTestPolicy(fn, p.TestJob.Spec.Template.Labels)
	}
}

// planTestPolicy plans the NetworkPolicy of the pod that runs tests, which has these labels. As for the pods
// of the function, there is none if another policy selects the pod.
func (p *planner) planTestPolicy(fn *v1beta1.Function, pod map[string]string) {
	if p.settings.NetworkPolicy && !p.seen.PolicySelects(pod) {
		p.TestPolicy = desired.TestPolicy(fn, p.settings)
	}
}

// testRun returns the Job for the tests of the latest version; nil if there is none.
func (p *planner) testRun() *observe.TestRun {
	i := slices.IndexFunc(p.seen.TestRuns, func(run observe.TestRun) bool {
		return run.Job.Name == p.neededTestJob && run.Job.DeletionTimestamp == nil
	})
	if i < 0 {
		return nil
	}
	return &p.seen.TestRuns[i]
}

// retryTests plans to delete a Job that has failed although the tests did not run, so that another one
// is created.
func (p *planner) retryTests(run *observe.TestRun, failed *batchv1.JobCondition) {
	if left := testRetry - p.seen.Time.Sub(failed.LastTransitionTime.Time); left > 0 {
		p.TestDelay = left
		return
	}
	p.Delete = append(p.Delete, &run.Job)
}

// deleteTests plans to delete the Jobs of tests of other versions and of versions that were rolled
// out, and a NetworkPolicy that is not planned.
func (p *planner) deleteTests(fn *v1beta1.Function) {
	if p.compiledInPods == nil { // the latest version is unknown
		return
	}
	for _, run := range p.seen.TestRuns {
		if run.Job.Name != p.neededTestJob {
			p.Delete = append(p.Delete, &run.Job)
		}
	}
	if p.TestPolicy == nil && metav1.IsControlledBy(p.seen.TestPolicy, fn) {
		p.Delete = append(p.Delete, p.seen.TestPolicy)
	}
}
