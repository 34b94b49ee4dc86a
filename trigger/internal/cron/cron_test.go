package cron_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
	"goless.io/trigger/internal/cron"
	"goless.io/trigger/internal/functionref"
)

var update = flag.Bool("update", false, "update the golden files")

func nightly() *v1alpha1.CronTrigger {
	return &v1alpha1.CronTrigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "nightly", UID: "7", Generation: 3},
		Spec: v1alpha1.CronTriggerSpec{
			FunctionRef: v1alpha1.FunctionReference{Name: "report"}, Schedule: "0 3 * * *", TimeZone: "Europe/Berlin",
			Method: "PUT", Path: "/run?all=1", Headers: map[string]v1alpha1.HeaderValue{"X-B": "2", "X-A": "$1"}, Body: "$(JOB_NAME) costs $5",
		},
	}
}

// The CronJob contains each field of a CronTrigger. The kubelet does not expand variables of the
// user.
func TestCronJob(t *testing.T) {
	to := functionref.Target{URL: "http://report.shop.svc:9000", Timeout: 130 * time.Second}
	got, err := yaml.Marshal(cron.Desired(nightly(), to, "registry.example/deliver@sha256:0123"))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/nightly.yaml"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the CronJob (-want +got):\n%s", diff)
	}
}

// The largest request that the schema accepts can be passed to a program: Linux limits the size of
// one argument to 128 KiB, and the total size of all arguments.
func TestLargestRequest(t *testing.T) {
	trigger := nightly()
	trigger.Spec.Path = "/" + strings.Repeat("a", 2047)
	trigger.Spec.Body = strings.Repeat("世", 131000/len("世"))
	for i := range 32 {
		trigger.Spec.Headers[fmt.Sprintf("X-%0126d", i)] = v1alpha1.HeaderValue(strings.Repeat("$", 4096))
	}
	args := cron.Desired(trigger, functionref.Target{URL: "http://report.shop.svc:9000"}, "image").Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args
	for i, arg := range args {
		args[i] = strings.ReplaceAll(arg, "$$", "$") // as the kubelet does
	}
	if out, err := exec.CommandContext(t.Context(), "true", args...).CombinedOutput(); err != nil {
		t.Errorf("the program cannot be started: %v %s", err, out)
	}
}

// If the Function has no timeout, an attempt times out after an hour, and the deadline of the Job
// is after that of the last attempt.
func TestLongest(t *testing.T) {
	job := cron.Desired(nightly(), functionref.Target{URL: "http://report.shop.svc:9000"}, "image").Spec.JobTemplate.Spec
	if args := job.Template.Spec.Containers[0].Args; !slices.Contains(args, "--timeout=1h0m0s") || *job.ActiveDeadlineSeconds != 75*60 {
		t.Errorf("the Job may take %d s, with %q", *job.ActiveDeadlineSeconds, args)
	}
}

// A scheduled time without a call is reported, but only if there should have been one.
func TestMissed(t *testing.T) {
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, "2026-11-"+text+":00+01:00") // in Berlin it is winter
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for name, test := range map[string]struct {
		now     time.Time
		last    time.Time // of the last call
		written time.Time // when the schedule was written
		edit    func(*v1alpha1.CronTrigger, *batchv1.CronJob)
		missed  string
		again   time.Duration
	}{
		"NotYet":  {now: at("23T02:59"), written: at("22T12:00"), again: 6 * time.Minute},
		"MayBe":   {now: at("23T03:05"), written: at("22T12:00"), again: 0},
		"Missed":  {now: at("23T03:06"), written: at("22T12:00"), missed: "2026-11-23T03:00:00+01:00", again: 24*time.Hour - time.Minute},
		"Called":  {now: at("23T03:06"), written: at("22T12:00"), last: at("23T03:00"), again: 24*time.Hour - time.Minute},
		"Changed": {now: at("23T12:06"), written: at("23T12:05"), last: at("22T03:00"), again: 14*time.Hour + 59*time.Minute},
		"Never": {now: at("23T03:06"), written: at("22T12:00"), edit: func(t *v1alpha1.CronTrigger, _ *batchv1.CronJob) {
			t.Spec.Schedule = "0 3 30 2 *"
		}, again: -time.Second},
		"Suspended": {now: at("23T03:06"), written: at("22T12:00"), edit: func(_ *v1alpha1.CronTrigger, job *batchv1.CronJob) {
			job.Spec.Suspend = new(true)
		}, again: -time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			trigger, job := nightly(), cronJob(test.written)
			if !test.last.IsZero() {
				job.Status.LastScheduleTime = &metav1.Time{Time: test.last}
			}
			if test.edit != nil {
				test.edit(trigger, job)
			}
			again := cron.Kind{}.Report(trigger, cron.Seen{Time: test.now, CronJob: job})
			if want := test.again + time.Second; again != want {
				t.Errorf("it looks again after %s, want %s", again, want)
			}
			if c := meta.FindStatusCondition(trigger.Status.Conditions, v1alpha1.ConditionDelivered); !tells(c, test.missed) {
				t.Errorf("Delivered is %v, want %q missed", c, test.missed)
			}
		})
	}
}

// tells reports whether a condition contains the missed scheduled time; "" means none.
func tells(c *metav1.Condition, missed string) bool {
	if c == nil {
		return missed == ""
	}
	return missed != "" && c.Reason == v1alpha1.ReasonMissed && strings.Contains(c.Message, missed)
}

// The outcome of a call is what the container deliver reports, regardless of the pod. An exit code
// that reports no outcome counts when no other pod repeats the call.
func TestOutcome(t *testing.T) {
	ended := func(code int32) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "deliver", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: code, Reason: "Why", Message: map[int32]string{1: "the response was 400 Bad Request"}[code],
		}}}}
	}
	sidecar := corev1.ContainerStatus{Name: "proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	late := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "DeadlineExceeded", Message: "Job was active longer than specified deadline"}
	complete := batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}
	for name, test := range map[string]struct {
		containers []corev1.ContainerStatus
		evicted    bool
		conditions []batchv1.JobCondition
		want       string // in the message of Delivered; "" if there is no outcome
		deleted    bool   // the Job, once the outcome is in the status
	}{
		"Running":          {containers: []corev1.ContainerStatus{{Name: "deliver"}, sidecar}},
		"Delivered":        {containers: ended(0), want: "accepted the last call"},
		"WithSidecar":      {containers: append(ended(0), sidecar), want: "accepted the last call", deleted: true},
		"SidecarLate":      {containers: append(ended(0), sidecar), conditions: []batchv1.JobCondition{late}, want: "accepted the last call"},
		"Complete":         {conditions: []batchv1.JobCondition{complete}, want: "accepted the last call"},
		"Refused":          {containers: ended(1), want: "400 Bad Request"},
		"RefusedSidecar":   {containers: append(ended(1), sidecar), want: "400 Bad Request", deleted: true},
		"Killed":           {containers: ended(137)},
		"KilledForGood":    {containers: ended(137), conditions: []batchv1.JobCondition{late}, want: "exited with code 137 (Why)"},
		"KilledSidecar":    {containers: append(ended(137), sidecar), want: "exited with code 137 (Why)", deleted: true},
		"Evicted":          {containers: append(ended(137), sidecar), evicted: true},
		"Interrupted":      {containers: append(ended(3), sidecar)},
		"NothingReported":  {conditions: []batchv1.JobCondition{late}, want: "longer than specified deadline"},
		"NotEndedButLate":  {containers: []corev1.ContainerStatus{{Name: "deliver"}, sidecar}, conditions: []batchv1.JobCondition{late}, want: "longer than specified deadline"},
		"AnotherContainer": {containers: []corev1.ContainerStatus{{Name: "proxy", State: ended(0)[0].State}}},
	} {
		t.Run(name, func(t *testing.T) {
			trigger, seen := nightly(), called(test.containers, test.evicted, test.conditions)
			if n := len(cron.Kind{}.Plan(trigger, seen).Changes); n != 1 {
				t.Errorf("it makes %d changes before the outcome is in the status, want 1", n)
			}
			again := cron.Kind{}.Report(trigger, seen)
			c := meta.FindStatusCondition(trigger.Status.Conditions, v1alpha1.ConditionDelivered)
			if !says(c, test.want) {
				t.Errorf("Delivered is %v, want %q", c, test.want)
			}
			deleted := len(cron.Kind{}.Plan(trigger, seen).Changes) > 1
			if deleted != test.deleted || deleted && again > time.Minute {
				t.Errorf("the Job is deleted: %t, after %s, want %t", deleted, again, test.deleted)
			}
		})
	}
}

// A Job whose pod the API server has rejected until its deadline fails for that reason. The outcome
// in the status is kept if the reason is not known later.
func TestRefused(t *testing.T) {
	trigger := nightly()
	failed := batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Message: "Job was active longer than specified deadline"}
	seen := called(nil, false, []batchv1.JobCondition{failed})
	seen.Pods, seen.Refused = nil, map[types.UID]string{seen.Jobs[0].UID: "exceeded quota"}
	for _, when := range []string{"with the Event", "after that has expired"} {
		cron.Kind{}.Report(trigger, seen)
		if c := meta.FindStatusCondition(trigger.Status.Conditions, v1alpha1.ConditionDelivered); !says(c, "exceeded quota") {
			t.Errorf("%s Delivered is %v", when, c)
		}
		seen.Refused = nil
	}

	trigger = nightly()
	seen = called([]corev1.ContainerStatus{{Name: "deliver", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}, false, nil)
	cron.Kind{}.Report(trigger, seen)
	seen.Pods, seen.Jobs[0].Status.Conditions = nil, []batchv1.JobCondition{failed}
	cron.Kind{}.Report(trigger, seen)
	if c := meta.FindStatusCondition(trigger.Status.Conditions, v1alpha1.ConditionDelivered); c.Status != metav1.ConditionTrue {
		t.Errorf("a delivered call is %v after its pod was deleted", c)
	}
}

// called returns the observed state of a trigger that has made one call.
func called(containers []corev1.ContainerStatus, evicted bool, conditions []batchv1.JobCondition) cron.Seen {
	owner := cronJob(time.Now())
	job := batchv1.Job{ObjectMeta: metav1.ObjectMeta{UID: "9", CreationTimestamp: metav1.Now()}, Status: batchv1.JobStatus{Conditions: conditions}}
	job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, batchv1.SchemeGroupVersion.WithKind("CronJob"))}
	pod := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: containers}}
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	if evicted {
		pod.DeletionTimestamp = new(metav1.Now())
	}
	return cron.Seen{Time: time.Now(), CronJob: owner, Jobs: []batchv1.Job{job}, Pods: []corev1.Pod{pod}}
}

// says reports whether the message of a condition contains a part; if the part is "", there must be
// no condition.
func says(c *metav1.Condition, part string) bool {
	if c == nil {
		return part == ""
	}
	return part != "" && strings.Contains(c.Message, part)
}

// cronJob returns the CronJob of a trigger whose schedule was changed at the given time.
func cronJob(written time.Time) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "nightly", UID: "8", CreationTimestamp: metav1.NewTime(written.AddDate(0, -1, 0)),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(nightly(), v1alpha1.GroupVersion.WithKind("CronTrigger"))},
		ManagedFields: []metav1.ManagedFieldsEntry{
			{Manager: "kube-controller-manager", Subresource: "status", Time: &metav1.Time{Time: written.AddDate(1, 0, 0)}},
			{Manager: apply.FieldOwner, Time: &metav1.Time{Time: written}},
		},
	}}
}

// The CronJob is suspended if the Function cannot be called, and is not changed if the spec is
// invalid.
func TestPlan(t *testing.T) {
	fn := v1beta1.Function{ObjectMeta: metav1.ObjectMeta{UID: "1"}, Status: v1beta1.FunctionStatus{URL: "http://report.shop.svc:9000"}}
	for name, test := range map[string]struct {
		function v1beta1.Function
		edit     func(*v1alpha1.CronTrigger)
		reason   string
		stalled  bool
		changes  int
	}{
		"Ready":    {function: fn, edit: func(*v1alpha1.CronTrigger) {}, changes: 1},
		"Words":    {function: fn, edit: func(t *v1alpha1.CronTrigger) { t.Spec.Schedule = "@daily" }, changes: 1},
		"Missing":  {edit: func(*v1alpha1.CronTrigger) {}, reason: "FunctionNotFound", changes: 1},
		"Schedule": {function: fn, edit: func(t *v1alpha1.CronTrigger) { t.Spec.Schedule = "daily" }, reason: "InvalidSpec", stalled: true},
		"Zone":     {function: fn, edit: func(t *v1alpha1.CronTrigger) { t.Spec.TimeZone = "Local" }, reason: "InvalidSpec", stalled: true},
	} {
		t.Run(name, func(t *testing.T) {
			trigger, problem := nightly(), &functionref.Problem{}
			test.edit(trigger)
			plan := cron.Kind{}.Plan(trigger, cron.Seen{Function: test.function, CronJob: &batchv1.CronJob{}})
			if plan.Problem != nil {
				problem = plan.Problem
			}
			if problem.Reason != test.reason || problem.Stalled != test.stalled || len(plan.Changes) != test.changes {
				t.Errorf("got %+v and %d changes, want %s, stalled %t and %d", problem, len(plan.Changes), test.reason, test.stalled, test.changes)
			}
		})
	}
}
