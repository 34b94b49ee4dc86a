package status_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/status"
	"goless.io/operator/internal/validation"
)

const source, before = "package new\n", "package old\n"

var latest, old = desired.Revision(source), desired.Revision(before)

func TestOf(t *testing.T) {
	specRefused := status.Seen{Plan: plan.Plan{Problem: &validation.Problem{Reason: "InvalidSpec", Message: "no"}}}
	failed := pod(latest, ended(10, `{"reason":"CompileFailed","diagnostics":[{"file":"handler.go","line":7,"column":2,"message":"undefined: x"},{"file":"handler.go","line":9,"column":1,"message":"more"}],"duration":"300ms","toolchain":"go1.27.4"}`))
	for name, test := range map[string]struct {
		replicas int32
		seen     status.Seen
		ready    string // reason of Ready
		truth    string // conditions that are true
		message  string // part of Ready's message
		revision string // readyRevision
	}{
		"Nothing": {
			replicas: 1, ready: "Building", truth: "SourceValid Reconciling",
		},
		"Compiling": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, pod(latest, running())),
			ready: "Building", truth: "SourceValid Reconciling", message: "compiling",
		},
		"PullingBuilder": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, pod(latest, waiting("ImagePullBackOff", "no such image"))),
			ready: "Building", truth: "SourceValid Reconciling", message: "no such image",
		},
		"PullingBuilderAgain": { // the same message
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, pod(latest, waiting("ImagePullBackOff", `Back-off pulling image "b": ErrImagePull: no such image`))),
			ready: "Building", truth: "SourceValid Reconciling", message: "ErrImagePull: no such image",
		},
		"Starting": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, pod(latest, ended(0, `{"reason":"Built"}`))),
			ready: "RollingOut", truth: "SourceValid Built Reconciling", message: "0 of 1",
		},
		"Serving": {
			replicas: 1, seen: seen(deployment(1, 1, latest), sets(latest), pod(latest, ended(0, `{"reason":"Built"}`))),
			ready: "Serving", truth: "SourceValid Built Available Ready", revision: latest,
		},
		"Update": {
			replicas: 1, seen: seen(deployment(2, 1, latest), sets(old), pod(latest, running())),
			ready: "Building", truth: "SourceValid Available Reconciling", message: "revision " + old + " continues to serve", revision: old,
		},
		"UpdateStarting": { // the available replica has the previous version
			replicas: 1, seen: seen(surging(deployment(1, 1, latest)), sets(old), pod(latest, ended(0, `{"reason":"Built"}`))),
			ready: "RollingOut", truth: "SourceValid Built Available Reconciling", message: "0 of 1 replicas are ready with the latest version", revision: old,
		},
		"Verifying": {
			replicas: 1, seen: verifying(seen(surging(deployment(1, 2, latest)), sets(old, latest), pod(latest, ended(0, `{"reason":"Built"}`)))),
			ready: "Verifying", truth: "SourceValid Built Available Reconciling", message: "verified until 2026-11-30T12:00:00Z", revision: latest,
		},
		"RolledBack": {
			replicas: 1, seen: rolledBack(seen(rolledOut(deployment(1, 1, old)), sets(old))),
			ready: "RolledBack", truth: "SourceValid Available Stalled", message: "half failed; change it to try again; revision " + old + " continues to serve", revision: old,
		},
		"RolledBackEnvironment": { // both versions have the same source
			replicas: 1, seen: rolledBack(seen(rolledOut(deployment(1, 1, latest)), sets(latest), pod(latest, ended(0, `{"reason":"Built"}`)))),
			ready: "RolledBack", truth: "SourceValid Built Available Stalled", message: "half failed", revision: latest,
		},
		"UpdateOverlapping": {
			replicas: 2, seen: seen(surging(deployment(2, 2, latest)), sets(old, latest), pod(latest, ended(0, `{"reason":"Built"}`))),
			ready: "RollingOut", truth: "SourceValid Built Available Reconciling", message: "1 of 2 replicas are ready with the latest version", revision: latest,
		},
		"StaleDeployment": {
			replicas: 1, seen: seen(stale(deployment(1, 1, latest)), sets(old)),
			ready: "Building", truth: "SourceValid Available Reconciling", revision: old,
		},
		"CompileFailed": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, failed),
			ready: "CompileFailed", truth: "SourceValid Stalled", message: "handler.go:7:2: undefined: x (and 1 more in status.build.diagnostics)",
		},
		"FailedUpdate": {
			replicas: 1, seen: seen(deployment(2, 1, latest), sets(old), failed, pod(old, ended(0, `{"reason":"Built"}`))),
			ready: "CompileFailed", truth: "SourceValid Available Stalled", message: "revision " + old + " continues to serve", revision: old,
		},
		"ScaledFailure": { // the newest pod is compiling the source that the previous pod could not compile
			replicas: 2, seen: seen(deployment(2, 0, latest), nil, failed, newer(pod(latest, running()))),
			ready: "CompileFailed", truth: "SourceValid Stalled", message: "undefined: x",
		},
		"ScaledBuild": {
			replicas: 2, seen: seen(deployment(2, 1, latest), sets(latest), pod(latest, ended(0, `{"reason":"Built"}`)), newer(pod(latest, running()))),
			ready: "Building", truth: "SourceValid Built Available Reconciling", message: "compiling", revision: latest,
		},
		"OutOfMemory": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, pod(latest, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}})),
			ready: "BuildOutOfMemory", truth: "SourceValid Stalled",
		},
		"BuilderBroken": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, pod(latest, ended(2, "rubbish"))),
			ready: "BuildFailed", truth: "SourceValid Reconciling", message: "exited with code 2",
		},
		"ForgedReason": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, pod(latest, ended(0, `{"reason":"Has spaces"}`))),
			ready: "BuildFailed", truth: "SourceValid Reconciling", message: "does not know: Has spaces",
		},
		"ForgedSuccess": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, pod(latest, ended(1, `{"reason":"Built"}`))),
			ready: "BuildFailed", truth: "SourceValid Reconciling", message: "exited with code 1",
		},
		"ForgedDiagnostics": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, pod(latest, ended(10, `{"reason":"CompileFailed","diagnostics":[{"file":"a\u001b[2J","message":"b\nc"}]}`))),
			ready: "CompileFailed", truth: "SourceValid Stalled", message: "a?[2J: b c",
		},
		"Crashing": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, crashing(pod(latest, ended(0, `{"reason":"Built"}`)))),
			ready: "CrashLooping", truth: "SourceValid Built Stalled", message: "exited with code 2: panic: no database",
		},
		"SecretMissing": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, configless(pod(latest, ended(0, `{"reason":"Built"}`)))),
			ready: "RollingOut", truth: "SourceValid Built Reconciling", message: `0 of 1 replicas are ready with the latest version; CreateContainerConfigError: secret "database" not found`,
		},
		"OtherTemplate": { // the variable that caused the crash was fixed
			replicas: 1, seen: seen(templated(deployment(1, 0, latest)), nil, crashing(pod(latest, ended(0, `{"reason":"Built"}`)))),
			ready: "Building", truth: "SourceValid Reconciling", message: "waiting for a pod",
		},
		"HostileWords": {
			replicas: 1, seen: seen(deployment(1, 0, latest), nil, ending(crashing(pod(latest, ended(0, `{"reason":"Built"}`))),
				"bye\x1b[31m\x00"+strings.Repeat("x", 5000))),
			ready: "CrashLooping", truth: "SourceValid Built Stalled", message: "bye?[31m?xxx",
		},
		"Refused": {
			replicas: 1, seen: refused(seen(deployment(1, 1, old), sets(old))),
			ready: "InvalidSource", truth: "Available Stalled", message: "handler.go:1:1: bad", revision: old,
		},
		"SpecRefused": {
			replicas: 1, seen: specRefused,
			ready: "InvalidSpec", truth: "SourceValid Stalled", message: "no",
		},
		"SpecAndSourceRefused": {
			replicas: 1, seen: refused(specRefused),
			ready: "InvalidSpec", truth: "Stalled", message: "no",
		},
		"Conflict": {
			replicas: 1, seen: conflict(status.Seen{}),
			ready: "ServiceConflict", truth: "SourceValid Stalled", message: "not ours",
		},
		"NoService": {
			replicas: 1, seen: conflict(seen(deployment(1, 1, latest), sets(latest))),
			ready: "ServiceConflict", truth: "SourceValid Stalled", message: "not ours", revision: latest,
		},
		"BeingDeleted": {
			replicas: 1, seen: deleted(seen(deployment(1, 1, latest), sets(latest))),
			ready: "RollingOut", truth: "SourceValid Available Reconciling", message: "created again", revision: latest,
		},
		"Paused": {
			replicas: 1, seen: paused(seen(deployment(2, 1, latest), sets(old))),
			ready: "Building", truth: "SourceValid Available Reconciling", message: "kubectl rollout resume", revision: old,
		},
		"Failure": {
			replicas: 1, seen: failure(seen(deployment(1, 1, latest), sets(latest))),
			ready: "ApplyFailed", truth: "SourceValid Built Available Reconciling", message: "quota", revision: latest,
		},
		"Degraded": {
			replicas: 1, seen: lacking(seen(deployment(1, 1, latest), sets(latest))),
			ready: "Serving", truth: "SourceValid Built Available Ready Degraded", revision: latest,
		},
		"ServiceMoves": {
			replicas: 1, seen: moving(seen(deployment(1, 1, latest), sets(latest))),
			ready: "RollingOut", truth: "SourceValid Built Available Reconciling", revision: latest,
		},
		"StaleTemplate": { // another environment that is not in the cache yet
			replicas: 1, seen: templateOf(seen(deployment(1, 1, latest), sets(latest), pod(latest, ended(0, `{"reason":"Built"}`))), "other"),
			ready: "RollingOut", truth: "SourceValid Built Available Reconciling", revision: latest,
		},
		"StaleReplicaSets": {
			replicas: 1, seen: seen(deployment(1, 1, latest), nil),
			ready: "Serving", truth: "SourceValid Built Available Ready", revision: latest,
		},
		"Stopped": {
			seen:  seen(deployment(0, 0, latest), nil),
			ready: "Stopped", truth: "SourceValid Ready",
		},
		"Stopping": {
			seen:  seen(rolledOut(deployment(1, 1, latest)), sets(latest)),
			ready: "Serving", truth: "SourceValid Available Ready Reconciling", revision: latest,
		},
		"Started": { // it was stopped, and no replica serves yet
			replicas: 1, seen: seen(rolledOut(deployment(1, 0, latest)), nil, pod(latest, running())),
			ready: "Building", truth: "SourceValid Reconciling",
		},
		"First": { // its first rollout is not complete
			replicas: 3, seen: seen(deployment(3, 1, latest), sets(latest), pod(latest, ended(0, `{"reason":"Built"}`))),
			ready: "RollingOut", truth: "SourceValid Built Available Reconciling", message: "1 of 3", revision: latest,
		},
		"Scaled": {
			replicas: 3, seen: seen(rolledOut(deployment(3, 1, latest)), sets(latest)),
			ready: "Serving", truth: "SourceValid Built Available Ready Reconciling", revision: latest,
		},
		"ScaledDown": {
			replicas: 1, seen: seen(rolledOut(deployment(3, 3, latest)), sets(latest)),
			ready: "Serving", truth: "SourceValid Built Available Ready Reconciling", revision: latest,
		},
		"JustScaled": { // the Deployment controller has not observed the change
			replicas: 3, seen: seen(numbered(stale(rolledOut(deployment(1, 1, latest))), "4"), []appsv1.ReplicaSet{rollout(old, "3", 0), rollout(latest, "4", 1)}),
			ready: "Serving", truth: "SourceValid Built Available Ready Reconciling", revision: latest,
		},
		"JustScaledWithoutPods": { // the Deployment still counts pods that its ReplicaSet has lost
			replicas: 3, seen: seen(numbered(stale(rolledOut(deployment(1, 1, latest))), "4"), []appsv1.ReplicaSet{rollout(old, "3", 0), rollout(latest, "4", 0)}),
			ready: "Building", truth: "SourceValid Available Reconciling",
		},
		"JustChanged": {
			replicas: 1, seen: seen(numbered(stale(rolledOut(deployment(1, 1, latest))), "4"), []appsv1.ReplicaSet{rollout(old, "4", 1)}),
			ready: "Building", truth: "SourceValid Available Reconciling", revision: old,
		},
		"ChangedBack": { // the latest template is a previous one, and the ReplicaSets are stale
			replicas: 1, seen: seen(numbered(stale(rolledOut(deployment(1, 1, latest))), "4"), []appsv1.ReplicaSet{rollout(latest, "3", 1)}),
			ready: "Building", truth: "SourceValid Available Reconciling", revision: latest,
		},
		"ChangingBack": { // the controller has observed the change and not counted the pods yet
			replicas: 1, seen: seen(numbered(stale(rolledOut(deployment(1, 1, latest))), "5"), []appsv1.ReplicaSet{rollout(old, "4", 1), rollout(latest, "5", 0)}),
			ready: "Building", truth: "SourceValid Available Reconciling", revision: old,
		},
		"OneCrashes": {
			replicas: 2, seen: seen(rolledOut(deployment(2, 1, latest)), sets(latest), crashing(pod(latest, ended(0, `{"reason":"Built"}`)))),
			ready: "Serving", truth: "SourceValid Built Available Ready Reconciling", revision: latest,
		},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(test.replicas)
			got := status.Of(fn, test.seen)
			expect(t, got, test.ready, test.message, test.truth, test.revision)
			invariants(t, fn, got)
		})
	}
}

// expect compares the reason of Ready and part of its message, the conditions that are true, and
// readyRevision.
func expect(t *testing.T, got v1beta1.FunctionStatus, reason, message, conditions, revision string) {
	t.Helper()
	ready := meta.FindStatusCondition(got.Conditions, "Ready")
	if ready.Reason != reason || !strings.Contains(ready.Message, message) {
		t.Errorf("Ready is %s: %q, want %s: %q", ready.Reason, ready.Message, reason, message)
	}
	if truth := truth(got); truth != conditions {
		t.Errorf("true conditions: %q, want %q", truth, conditions)
	}
	if got.ReadyRevision != revision {
		t.Errorf("readyRevision is %q, want %q", got.ReadyRevision, revision)
	}
}

// truth returns the conditions that are true.
func truth(got v1beta1.FunctionStatus) string {
	var kinds []string
	for _, kind := range []string{"SourceValid", "Built", "Available", "Ready", "Reconciling", "Stalled", "Degraded"} {
		if meta.IsStatusConditionTrue(got.Conditions, kind) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, " ")
}

// invariants checks conditions that hold in every state.
func invariants(t *testing.T, fn *v1beta1.Function, got v1beta1.FunctionStatus) {
	t.Helper()
	is := func(kind string) bool { return meta.IsStatusConditionTrue(got.Conditions, kind) }
	if !is("Ready") && !is("Reconciling") && !is("Stalled") || is("Stalled") && (is("Ready") || is("Reconciling")) {
		t.Error("none of Ready, Reconciling and Stalled is true, or Stalled and another one are")
	}
	if c := meta.FindStatusCondition(got.Conditions, "Reconciling"); is("Ready") && c != nil && c.Reason != "Scaling" {
		t.Errorf("Ready and Reconciling because of %s", c.Reason)
	}
	serves := is("Built") && is("Available") && got.ReadyRevision == got.LatestRevision
	if is("Ready") && *fn.Spec.Replicas > 0 && !serves {
		t.Error("Ready, but not built and available with the latest revision")
	}
	wellFormed(t, fn, got)
}

// wellFormed checks the format of the conditions.
func wellFormed(t *testing.T, fn *v1beta1.Function, got v1beta1.FunctionStatus) {
	t.Helper()
	for _, c := range got.Conditions {
		if c.ObservedGeneration != fn.Generation || strings.ContainsAny(c.Message, "\n\r") || c.Message == "" || c.Reason == "" {
			t.Errorf("condition %+v", c)
		}
		if c.Status != metav1.ConditionTrue && (c.Type == "Reconciling" || c.Type == "Stalled" || c.Type == "Degraded") {
			t.Errorf("%s exists with status %s", c.Type, c.Status)
		}
	}
	if got.ObservedGeneration != fn.Generation {
		t.Errorf("observedGeneration is %d", got.ObservedGeneration)
	}
}

// Each replica compiles the source; the status keeps the result of the first build.
func TestBuildIsToldOnce(t *testing.T) {
	fn := function(2)
	first := pod(latest, ended(0, `{"reason":"Built","duration":"300ms","toolchain":"go1.27.4"}`))
	fn.Status = status.Of(fn, seen(deployment(1, 1, latest), sets(latest), first))
	second := pod(latest, ended(0, `{"reason":"Built","duration":"400ms","toolchain":"go1.27.4"}`))
	second.CreationTimestamp.Time = time.Now()
	got := status.Of(fn, seen(deployment(2, 2, latest), sets(latest), first, second))
	if got.Build == nil || got.Build.Duration != "300ms" {
		t.Errorf("build is %+v", got.Build)
	}
	// The build is still reported when the pods are gone.
	fn.Status, fn.Spec.Replicas = got, new(int32(0))
	got = status.Of(fn, seen(deployment(0, 0, latest), nil))
	if !meta.IsStatusConditionTrue(got.Conditions, "Built") || got.Build == nil {
		t.Errorf("after a stop: %+v", got)
	}
}

// A Deployment may be complete in the cache before the pod with the report is.
func TestLateReport(t *testing.T) {
	fn := function(1)
	fn.Status = status.Of(fn, seen(deployment(1, 1, latest), sets(latest)))
	if !meta.IsStatusConditionTrue(fn.Status.Conditions, "Built") || fn.Status.Build != nil {
		t.Fatalf("without a pod: %+v", fn.Status)
	}
	report := `{"reason":"Built","message":"built in 1s","warnings":[{"file":"handler.go","line":5,"message":"unreachable code"}],"duration":"1s"}`
	got := status.Of(fn, seen(deployment(1, 1, latest), sets(latest), pod(latest, ended(0, report))))
	if got.Build == nil || got.Build.Duration != "1s" || len(got.Build.Warnings) != 1 {
		t.Errorf("build is %+v", got.Build)
	}
	if built := meta.FindStatusCondition(got.Conditions, "Built"); !strings.Contains(built.Message, "unreachable code") {
		t.Errorf("message of Built: %q", built.Message)
	}
}

// Warnings of go vet are reported and have no other effect.
func TestWarnings(t *testing.T) {
	one := `{"file":"handler.go","line":5,"column":2,"message":"unreachable code"}`
	for report, want := range map[string]string{
		`{"reason":"Built","message":"built in 1s","warnings":[` + one + `]}`:             "built in 1s; warning: handler.go:5:2: unreachable code",
		`{"reason":"Built","message":"built in 1s","warnings":[` + one + `,` + one + `]}`: "built in 1s; 2 warnings, see status.build.warnings: handler.go:5:2: unreachable code",
	} {
		fn := function(1)
		got := status.Of(fn, seen(deployment(1, 1, latest), sets(latest), pod(latest, ended(0, report))))
		if truth := truth(got); truth != "SourceValid Built Available Ready" {
			t.Errorf("true conditions: %s", truth)
		}
		if built := meta.FindStatusCondition(got.Conditions, "Built"); built.Message != want {
			t.Errorf("message of Built: %q, want %q", built.Message, want)
		}
		if len(got.Build.Warnings) == 0 || got.Build.Warnings[0].Line != 5 {
			t.Errorf("unexpected warnings %v", got.Build.Warnings)
		}
		fn.Status = got
		if again := status.Of(fn, seen(deployment(1, 1, latest), sets(latest))); !slices.Equal(again.Build.Warnings, got.Build.Warnings) {
			t.Errorf("without the pod: warnings %v", again.Build.Warnings)
		}
	}
}

// A new source does not inherit the condition Built of the previous one.
func TestBuiltIsOfTheLatestRevision(t *testing.T) {
	fn := function(1)
	fn.Spec.Function = before
	fn.Status = status.Of(fn, seen(deployment(1, 1, old), sets(old), pod(old, ended(0, `{"reason":"Built"}`))))
	fn.Spec.Function = source
	got := status.Of(fn, seen(deployment(2, 1, latest), sets(old)))
	if c := meta.FindStatusCondition(got.Conditions, "Built"); c.Status != metav1.ConditionUnknown || got.Build != nil {
		t.Errorf("Built is %+v, build %+v", c, got.Build)
	}
}

// scaled sets spec.scaling.
func scaled(fn *v1beta1.Function, least, most int32) *v1beta1.Function {
	fn.Spec.Scaling = &v1beta1.Scaling{Min: &least, Max: &most}
	return fn
}

func function(replicas int32) *v1beta1.Function {
	fn := &v1beta1.Function{}
	fn.Name, fn.Namespace, fn.Generation = "f", "default", 3
	fn.Spec = v1beta1.FunctionSpec{Function: source, Replicas: &replicas}
	return fn
}

func seen(d *appsv1.Deployment, sets []appsv1.ReplicaSet, pods ...corev1.Pod) status.Seen {
	service := &corev1.Service{}
	service.Name = "f"
	return status.Seen{
		Snapshot: observe.Snapshot{ReplicaSets: sets, Pods: pods, Activator: observe.Activator{Ready: true, Routed: true}},
		Outcome:  apply.Outcome{Deployment: d, Service: service},
	}
}

func refused(s status.Seen) status.Seen {
	s.Plan.Diagnostics = []v1beta1.Diagnostic{{File: "handler.go", Line: 1, Column: 1, Message: "bad"}}
	return s
}

// verifying adds the verification of the latest spec.
func verifying(s status.Seen) status.Seen {
	s.Plan.Verification = &plan.Verification{Until: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	return s
}

// rolledBack adds that the latest spec was rolled back. Its record has number 2 in the result of
// recorded.
func rolledBack(s status.Seen) status.Seen {
	s.Plan.Verification = &plan.Verification{
		Result: plan.VerificationRolledBack, Message: "half failed", RejectedRecord: desired.RecordNameOf(deployment(0, 0, latest)),
	}
	return s
}

func templateOf(s status.Seen, template string) status.Seen {
	labels := map[string]string{desired.TemplateLabel: template}
	s.Plan.Deployment = appsv1ac.Deployment("f", "default").WithSpec(
		appsv1ac.DeploymentSpec().WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels)))
	return s
}

func conflict(s status.Seen) status.Seen {
	s.Outcome.Service, s.Outcome.Problem = nil, &validation.Problem{Reason: "ServiceConflict", Message: "not ours"}
	return s
}

func deleted(s status.Seen) status.Seen {
	s.Outcome.Deployment.DeletionTimestamp = new(metav1.Now())
	return s
}

func paused(s status.Seen) status.Seen {
	s.Outcome.Deployment.Spec.Paused = true
	return s
}

func failure(s status.Seen) status.Seen {
	s.Outcome.Err = errors.New("creating: exceeded quota")
	return s
}

// lacking adds two problems that do not prevent the function from serving.
func lacking(s status.Seen) status.Seen {
	s.Outcome.Degraded = []validation.Problem{{Reason: "DisruptionBudgetFailed", Message: "no room"}, {Reason: "CleanupFailed", Message: "no right"}}
	return s
}

func moving(s status.Seen) status.Seen {
	s.Outcome.Service.Name = "former"
	s.Snapshot.Pods = []corev1.Pod{pod(latest, ended(0, `{"reason":"Built"}`))}
	return s
}

// deployment returns a Deployment of a revision with total pods, all of the current template, of
// which ready are ready and available.
func deployment(total, ready int32, revision string) *appsv1.Deployment {
	d := &appsv1.Deployment{}
	d.Generation = 2
	d.Spec.Replicas = &total
	d.Spec.Template.Labels = map[string]string{desired.RevisionLabel: revision, desired.TemplateLabel: revision}
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: 2, Replicas: total, UpdatedReplicas: total, ReadyReplicas: ready, AvailableReplicas: ready,
	}
	return d
}

// surging adds a new pod that is not ready.
func surging(d *appsv1.Deployment) *appsv1.Deployment {
	d.Status.Replicas++
	d.Status.UpdatedReplicas = 1
	d.Status.UnavailableReplicas = 1
	return d
}

func stale(d *appsv1.Deployment) *appsv1.Deployment {
	d.Generation++
	return d
}

// rolledOut adds the condition of a complete rollout.
func rolledOut(d *appsv1.Deployment) *appsv1.Deployment {
	d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{
		Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable",
	})
	return d
}

// numbered sets the number of the rollout that the Deployment controller has observed.
func numbered(d *appsv1.Deployment, number string) *appsv1.Deployment {
	d.Annotations = map[string]string{desired.RolloutAnnotation: number}
	return d
}

// rollout returns the ReplicaSet of a rollout, with pods that are ready and available.
func rollout(revision, number string, ready int32) appsv1.ReplicaSet {
	rs := set(revision, ready)
	rs.Annotations = map[string]string{desired.RolloutAnnotation: number}
	rs.Status.Replicas = ready
	return rs
}

func sets(ready ...string) []appsv1.ReplicaSet {
	all := []appsv1.ReplicaSet{set(old, 0), set(latest, 0)}
	for i := range all {
		if slices.Contains(ready, desired.RevisionOf(&all[i])) {
			all[i].Status.ReadyReplicas, all[i].Status.AvailableReplicas = 1, 1
		}
	}
	return all
}

func set(revision string, ready int32) appsv1.ReplicaSet {
	var rs appsv1.ReplicaSet
	rs.Labels = map[string]string{desired.RevisionLabel: revision, desired.TemplateLabel: revision}
	rs.Status.ReadyReplicas, rs.Status.AvailableReplicas = ready, ready
	return rs
}

func pod(revision string, build corev1.ContainerState) corev1.Pod {
	var p corev1.Pod
	p.Labels = map[string]string{desired.RevisionLabel: revision, desired.TemplateLabel: revision}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: desired.BuildContainer, State: build}}
	return p
}

func newer(p corev1.Pod) corev1.Pod {
	p.CreationTimestamp.Time = time.Now()
	return p
}

func crashing(p corev1.Pod) corev1.Pod {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name:  desired.FunctionContainer,
		State: waiting("CrashLoopBackOff", "back-off 10s"),
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 2, Message: "{\"level\":\"info\"}\npanic: no database\n\ngoroutine 1 [running]:\n",
		}},
	}}
	return p
}

func configless(p corev1.Pod) corev1.Pod {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: desired.FunctionContainer, State: waiting("CreateContainerConfigError", `secret "database" not found`),
	}}
	return p
}

func templated(d *appsv1.Deployment) *appsv1.Deployment {
	d.Spec.Template.Labels[desired.TemplateLabel] = "new"
	return d
}

// ending sets the termination message of a pod.
func ending(p corev1.Pod, words string) corev1.Pod {
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Message = words
	return p
}

func running() corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(code int32, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}}
}
