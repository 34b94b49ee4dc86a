package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/settings"
)

func tests(fn *v1beta1.Function) { fn.Spec.Build = &v1beta1.BuildSpec{Test: true} }

// testsBuilt sets the answers of the build service: the source and its tests have compiled.
func (s *scene) testsBuilt() *scene {
	s.answer(buildclient.Answer{Binary: binary})
	s.seen.Answers[desired.OrderName(s.fn, true)] = buildclient.Answer{Binary: &desired.Binary{Service: "https://build", Key: "tests", Capability: "c", PublicKey: "public"}}
	return s
}

// testRun adds the Job for the tests of the Function, with a condition; none if that is empty. code is
// the exit code of its pod; -1 if that has not ended.
func (s *scene) testRun(condition batchv1.JobConditionType, code int32) *scene {
	run := observe.TestRun{Pod: &corev1.Pod{}}
	s.own(&run.Job, desired.TestJobName(s.fn, s.settings))
	run.Job.CreationTimestamp = metav1.NewTime(now.Add(-time.Second))
	if condition != "" {
		run.Job.Status.Conditions = []batchv1.JobCondition{{Type: condition, Status: corev1.ConditionTrue, Message: "it ended", LastTransitionTime: metav1.NewTime(now)}}
	}
	if code >= 0 {
		run.Pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "proxy"}, {Name: desired.FunctionContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}}
	}
	s.seen.Time = now
	s.seen.TestRuns = append(s.seen.TestRuns, run)
	return s
}

// lastRun returns the Job that was added last.
func (s *scene) lastRun() *observe.TestRun { return &s.seen.TestRuns[len(s.seen.TestRuns)-1] }

// jobs returns the names of the deleted Jobs and NetworkPolicies.
func jobs(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.Contains(name, "tests") })
}

// A new function is deployed when its tests have passed. Until then there is no Deployment, and each
// step is planned once.
func TestFirstTests(t *testing.T) {
	s := begin(t, shared, first).with(tests)
	p := s.plan()
	if p.Deployment != nil || p.TestOrder != nil || p.TestJob != nil || len(p.Orders) != 1 {
		t.Errorf("before the source has compiled: %+v", p)
	}
	s.answer(buildclient.Answer{Binary: binary, Report: []byte("{}")})
	if p := s.plan(); p.Deployment != nil || p.TestOrder != s.fn || p.TestJob != nil || p.Build.Tests.Job != "" || len(p.Build.Report) == 0 {
		t.Errorf("before the tests have compiled: %+v", p)
	}
	p = s.testsBuilt().plan()
	if p.Deployment != nil || p.TestJob == nil || p.TestPolicy == nil || p.Build.Tests.Job != *p.TestJob.Name {
		t.Fatalf("before the Job exists: %+v", p)
	}
	if name := *p.TestJob.Name; name != desired.TestJobName(s.fn, s.settings) {
		t.Errorf("the Job has the name %s", name)
	}
	s.testRun("", -1).own(s.seen.TestPolicy, "f.tests")
	if p := s.plan(); p.Deployment != nil || p.TestJob != nil || p.TestPolicy == nil || p.TestDelay != 10*time.Second || !p.DoubtOrders || p.TestOrder == nil || len(jobs(deleted(p))) > 0 {
		t.Errorf("while the tests run: %+v", p)
	}
	s.seen.TestRuns = nil
	s.testRun(batchv1.JobComplete, 0).lastRun().Job.DeletionTimestamp = &metav1.Time{Time: now}
	if p := s.plan(); p.Deployment != nil {
		t.Error("the result of a Job that is being deleted counts")
	}
	s.seen.TestRuns = nil
	p = s.testRun(batchv1.JobComplete, -1).plan()
	if p.Deployment == nil || p.Build.Tests != nil || p.TestOrder != nil || p.AwaitsBuild || len(jobs(deleted(p))) > 0 {
		t.Errorf("after the tests have passed: %+v", p)
	}
	s.deployed(binary, 1)
	s.seen.OwnedFields = p.Deployment
	if got := jobs(deleted(s.plan())); len(got) != 2 {
		t.Errorf("after the rollout, deleted %v", got)
	}
}

// While the tests of an update run, and when they have failed, the pods keep their template. The
// Function can still be scaled. Tests that could not run are tried again.
func TestTestsOfUpdate(t *testing.T) {
	for name, test := range map[string]struct {
		condition batchv1.JobConditionType
		code      int32
		change    func(*scene)
		result    plan.TestResult
		message   string
		delay     time.Duration
		deleted   bool
		passed    bool
	}{
		"Running":     {code: -1, delay: 10 * time.Second},
		"NoPod":       {code: -1, change: func(s *scene) { s.lastRun().Pod, s.seen.Time = nil, now.Add(10*time.Second) }, message: "it has no pod yet", delay: 10 * time.Second},
		"JustCreated": {code: -1, change: func(s *scene) { s.lastRun().Pod = nil }, delay: 10 * time.Second},
		"Failed":      {condition: batchv1.JobFailed, code: 1, result: plan.TestsFailed},
		"FailedEarly": {code: 1, result: plan.TestsFailed}, // a sidecar still runs
		"PassedEarly": {code: 0, passed: true},
		"OutOfMemory": {condition: batchv1.JobFailed, code: 137, change: func(s *scene) {
			s.lastRun().Pod.Status.ContainerStatuses[1].State.Terminated.Reason = "OOMKilled"
		}, result: plan.TestsFailed},
		"Another":   {code: 125, delay: 10 * time.Second}, // the Job starts another pod
		"NoBinary":  {condition: batchv1.JobFailed, code: 125, result: plan.TestsNotRun, message: "it ended", delay: time.Minute},
		"Restarted": {condition: batchv1.JobFailed, code: 255, result: plan.TestsNotRun, message: "it ended", delay: time.Minute},
		"TooLate":   {condition: batchv1.JobFailed, code: -1, change: func(s *scene) { s.lastRun().Pod = nil }, result: plan.TestsNotRun, message: "it ended", delay: time.Minute},
		"LostNode":  {condition: batchv1.JobFailureTarget, code: -1, result: plan.TestsNotRun, message: "it ended", delay: time.Minute},
		"Unread":    {condition: batchv1.JobFailed, code: -1, change: func(s *scene) { s.lastRun().Pod, s.lastRun().PodErr = nil, errors.New("no") }, message: "no", delay: 10 * time.Second},
		"PodDeleted": {condition: batchv1.JobFailed, code: -1, change: func(s *scene) {
			s.lastRun().Pod = nil
			s.fn.Status.Conditions[0] = metav1.Condition{Type: v1beta1.ConditionBuilt, Reason: v1beta1.ReasonTestsFailed, Message: "TestA failed", ObservedGeneration: s.fn.Generation + 1}
		}, result: plan.TestsFailed, message: "TestA failed"},
		"FullDisk": {condition: batchv1.JobFailed, code: 137, change: func(s *scene) { s.lastRun().Pod.Status.Reason = "Evicted" }, result: plan.TestsFailed},
		"Evicted": {condition: batchv1.JobFailed, code: 137, change: func(s *scene) {
			s.lastRun().Pod.Status.Reason, s.lastRun().Pod.Status.Conditions = "Evicted", []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		}, result: plan.TestsNotRun, message: "it ended", delay: time.Minute},
		"TriedLate": {condition: batchv1.JobFailed, code: 126, change: func(s *scene) { s.seen.Time = now.Add(time.Minute) }, result: plan.TestsNotRun, message: "it ended", deleted: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, shared, first).with(tests).serving(binary, 1)
			before := desired.TemplateIn(s.seen.OwnedFields)
			s.set()
			s.change(second).testsBuilt().testRun(test.condition, test.code)
			if test.change != nil {
				test.change(s)
			}
			p := s.with(func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) }).plan()
			if kept := desired.TemplateIn(p.Deployment) == before; kept == test.passed || *p.Deployment.Spec.Replicas != 3 {
				t.Errorf("the Deployment is %+v", p.Deployment)
			}
			if deleted := len(jobs(deleted(p))) > 0; p.TestDelay != test.delay || deleted != test.deleted {
				t.Errorf("the tests are checked after %s, and the Job is deleted: %t", p.TestDelay, deleted)
			}
			if !test.passed {
				expectTests(t, p, test.result, test.message)
			}
		})
	}
}

// expectTests checks the state of tests that a Job runs or has run. message is a prefix. The build
// service may have lost their binary until there is a result.
func expectTests(t *testing.T, p *plan.Plan, result plan.TestResult, message string) {
	t.Helper()
	state := p.Build.Tests
	if state == nil || state.Result != result || !strings.HasPrefix(state.Message, message) || (state.Message == "") != (message == "") || p.TestJob != nil {
		t.Errorf("the tests are %+v", state)
	}
	if p.DoubtOrders != (result == "") {
		t.Errorf("the build service may have lost the binary: %t", p.DoubtOrders)
	}
}

// The tests of a version run once: not if only the values of ConfigMaps and Secrets have changed, if
// the version was rolled out before, or if the operator was upgraded.
func TestTestsRunOnce(t *testing.T) {
	recorded := func(s *scene) { s.recordOf(1, desired.SpecHashWithoutValues(s.fn, s.settings), "t", "r") }
	env := func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "A"}} }
	for name, test := range map[string]struct {
		change func(*scene)
		runs   bool
	}{
		"Nothing":    {func(*scene) {}, false},
		"Scaled":     {func(s *scene) { s.with(func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) }) }, false},
		"Source":     {func(s *scene) { s.change(second) }, true},
		"Env":        {func(s *scene) { s.with(env) }, true},
		"RolledBack": {func(s *scene) { recorded(s.with(env)) }, false},
		"Deleted":    {func(s *scene) { recorded(s); s.seen.OwnedFields, s.seen.Deployment.UID = nil, "" }, false},
		"TestEnv": {func(s *scene) {
			s.with(func(fn *v1beta1.Function) { fn.Spec.Build.TestEnv = []v1beta1.EnvVar{{Name: "A"}} })
		}, false},
		"Values":   {func(s *scene) { recorded(s); s.seen.Values.Hash = "other" }, false},
		"NoRecord": {func(s *scene) { s.seen.Values.Hash = "other" }, false},
		"NoTests":  {func(s *scene) { s.with(func(fn *v1beta1.Function) { fn.Spec.Build = nil }).change(second) }, false},
		"Upgraded": {func(s *scene) { s.under(withImages("builder:2", "launcher:2")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, shared, first).with(tests).serving(binary, 1)
			test.change(s)
			p := s.testsBuilt().plan()
			if runs := p.TestJob != nil; runs != test.runs {
				t.Errorf("the tests run: %t", runs)
			}
			if waits := p.Build != nil && p.Build.Tests != nil; waits != test.runs {
				t.Errorf("the rollout waits for tests: %t", waits)
			}
		})
	}
}

// Another Job runs the tests if something has changed for which they may have failed.
func TestTestJobName(t *testing.T) {
	s := begin(t, shared, first).with(tests)
	names := map[string]bool{desired.TestJobName(s.fn, shared): true}
	for _, change := range []func(*v1beta1.Function){
		func(fn *v1beta1.Function) { fn.Spec.Build.TestEnv = []v1beta1.EnvVar{{Name: "A"}} },
		func(fn *v1beta1.Function) { fn.Spec.Build.Timeout = &metav1.Duration{Duration: time.Hour} },
		func(fn *v1beta1.Function) { fn.Spec.Function = second },
		func(fn *v1beta1.Function) { fn.Name = strings.Repeat("f", 63) },
		func(fn *v1beta1.Function) { fn.Name = strings.Repeat("f", 62) + "g" },
	} {
		name := desired.TestJobName(s.with(change).fn, shared)
		if names[name] || len(name) > 63 {
			t.Errorf("the name is %s", name)
		}
		names[name] = true
	}
	if names[desired.TestJobName(s.fn, shared.Of(&v1beta1.FunctionClass{}))] {
		t.Error("another class has the same Job")
	}
}

// Turning tests on does not change pods, and concerns the next version.
func TestTestsAreTurnedOn(t *testing.T) {
	s := begin(t, shared, first).serving(binary, 1)
	before := desired.TemplateIn(s.seen.OwnedFields)
	p := s.with(tests).testsBuilt().plan()
	if p.TestJob != nil || desired.TemplateIn(p.Deployment) != before {
		t.Errorf("the Job is %v, and the template %s", p.TestJob, desired.TemplateIn(p.Deployment))
	}
	for _, source := range []string{first, second} {
		waiting := begin(t, shared, first).awaiting(binary).with(tests).change(source)
		if p := waiting.answer(buildclient.Answer{Binary: binary}).plan(); p.Deployment != nil || len(deleted(p)) != 1 || len(p.Orders) != 1 {
			t.Errorf("the Deployment that waits for its build is %v", p.Deployment)
		}
	}
}

// A function that returns to the version that serves, after the tests of another one did not compile,
// keeps its template, also if the operator was upgraded.
func TestReturnAfterTests(t *testing.T) {
	s := begin(t, shared, first).with(tests).serving(binary, 1).answer(buildclient.Answer{Binary: binary})
	before := desired.TemplateIn(s.seen.OwnedFields)
	s.fn.Status.Conditions[0].Reason = v1beta1.ReasonCompileFailed
	if p := s.under(withImages("builder:2", "launcher:2")).plan(); desired.TemplateIn(p.Deployment) != before {
		t.Error("the template has changed")
	}
}

// If the settings do not allow the build service any more, the next version is not rolled out, and the
// Function is managed as before.
func TestTestsWithoutBuildService(t *testing.T) {
	s := begin(t, shared, first).with(tests).serving(binary, 1)
	before := desired.TemplateIn(s.seen.OwnedFields)
	p := s.under(inPod).change(second).with(func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(3)) }).plan()
	if desired.TemplateIn(p.Deployment) != before || *p.Deployment.Spec.Replicas != 3 || p.Build.Tests.Result != plan.TestsFailed || p.Problem != nil {
		t.Errorf("the plan is %+v", p)
	}
}

// While tests run or have failed, the pods that serve are repaired, and keep their environment.
func TestRepairWhileUntested(t *testing.T) {
	s := begin(t, shared, first).with(tests).serving(binary, 1).testsBuilt()
	s.with(func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "A", Value: "untested"}} }).testRun(batchv1.JobFailed, 1)
	s.pod(corev1.ContainerStatus{Image: "launcher:1", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}})
	before := desired.TemplateIn(s.seen.OwnedFields)
	recorded := s.record(1).seen.Records[0].Name
	p := s.under(withImages("builder:2", "launcher:2")).plan()
	c := p.Deployment.Spec.Template.Spec.Containers[0]
	if *c.Image != "launcher:2" || !desired.IsIntact(p.Deployment) || desired.TemplateIn(p.Deployment) == before {
		t.Errorf("the container is %+v", c)
	}
	for _, v := range c.Env {
		if *v.Name == "A" {
			t.Error("the environment is that of the version whose tests have failed")
		}
	}
	if p.Record == nil || p.RecordOfSpec != recorded || p.Record.Labels["goless.io/recorded-spec"] != desired.RecordedSpec(&s.seen.Records[0]) {
		t.Errorf("the record %+v has the spec of %q, want %s", p.Record, p.RecordOfSpec, recorded)
	}
	if *desired.BinaryIn(p.Deployment) != *binary || *desired.BinaryIn(s.seen.OwnedFields) != *binary || desired.TemplateIn(s.seen.OwnedFields) != before {
		t.Errorf("the binary is %+v", desired.BinaryIn(p.Deployment))
	}
}

// While tests have failed, a pod that cannot fetch its binary gets another one.
func TestBinaryIsRepairedWhileUntested(t *testing.T) {
	s := begin(t, shared, first).with(tests).serving(binary, 0).testsBuilt()
	s.seen.Deployment.Status.AvailableReplicas = 0
	again := &desired.Binary{Service: "https://build", Key: "again", Capability: "c", PublicKey: "public"}
	s.answer(buildclient.Answer{Binary: again})
	s.with(func(fn *v1beta1.Function) { fn.Spec.Env = []v1beta1.EnvVar{{Name: "A", Value: "untested"}} }).testRun(batchv1.JobFailed, 1)
	p := s.plan()
	if got := desired.BinaryIn(p.Deployment); *got != *again || !desired.SameSpec(p.Deployment, s.seen.OwnedFields) || !desired.IsIntact(p.Deployment) {
		t.Errorf("the binary is %+v", got)
	}
}

// The pod of the tests has no NetworkPolicy if another policy selects it: the operator's would allow
// what that one denies.
func TestTestsWithForeignPolicy(t *testing.T) {
	s := begin(t, shared, first).with(tests).testsBuilt()
	s.seen.ForeignPolicies = []networkingv1.NetworkPolicy{{}}
	if p := s.plan(); p.TestJob == nil || p.TestPolicy != nil {
		t.Errorf("the NetworkPolicy is %v", p.TestPolicy)
	}
	s.testRun("", -1).own(s.seen.TestPolicy, "f.tests")
	if got := jobs(deleted(s.plan())); !slices.Equal(got, []string{"f.tests"}) {
		t.Errorf("deleted %v", got)
	}
}

// After a restart of the operator, when the answers of the build service are unknown, the Job with the
// result of the tests is kept. Jobs of other versions are deleted.
func TestJobIsKept(t *testing.T) {
	s := begin(t, shared, first).with(tests).serving(binary, 1).change(second).testRun(batchv1.JobFailed, 1)
	older := s.lastRun().Job.Name
	s.change(second+"// third\n").testRun(batchv1.JobFailed, 1)
	if got := jobs(deleted(s.plan())); !slices.Equal(got, []string{older}) {
		t.Errorf("deleted %v, want %s", got, older)
	}
	s.with(func(fn *v1beta1.Function) { fn.Status.LatestRevision = desired.LatestRevision(fn) }).answer(buildclient.Answer{Binary: binary})
	valid := *s.fn
	s.change(refused).seen.Sources = append(s.seen.Sources, *sourceOf(s, &valid))
	if p := s.plan(); !slices.Equal(jobs(deleted(p)), []string{older}) || p.TestJob != nil {
		t.Errorf("while the latest source is invalid: deleted %v", jobs(deleted(p)))
	}
	s.seen.OwnedFields, s.seen.ValuesErr = nil, errors.New("unknown")
	if got := jobs(deleted(s.plan())); len(got) > 0 {
		t.Errorf("deleted %v while the values are unknown", got)
	}
}

// sourceOf returns the ConfigMap with the source of a Function.
func sourceOf(s *scene, fn *v1beta1.Function) *corev1.ConfigMap {
	source := &corev1.ConfigMap{Data: map[string]string{"handler.go": fn.Spec.Function}}
	s.own(source, desired.ConfigMapName(fn, desired.LatestRevision(fn)))
	source.Labels = map[string]string{desired.RevisionLabel: desired.LatestRevision(fn)}
	observe.Summarize(source)
	return source
}

func withImages(builder, function string) settings.Settings {
	s := shared
	s.Images = settings.Images{Builder: builder, Function: function}
	return s
}
