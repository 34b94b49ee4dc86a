package controllers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
)

func cronTrigger(namespace string) *v1alpha1.CronTrigger {
	return &v1alpha1.CronTrigger{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "nightly"},
		Spec:       v1alpha1.CronTriggerSpec{FunctionRef: v1alpha1.FunctionReference{Name: "report"}, Schedule: "0 3 * * *"},
	}
}

func cronJobOf(trigger *v1alpha1.CronTrigger) *batchv1.CronJob {
	return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: trigger.Namespace, Name: trigger.Name}}
}

func suspended(t *testing.T, trigger *v1alpha1.CronTrigger) bool {
	t.Helper()
	job := cronJobOf(trigger)
	read(t, job)
	return *job.Spec.Suspend
}

// A trigger may be created before its Function and follows the state of it.
func TestFollowsFunction(t *testing.T) {
	t.Parallel()
	trigger := cronTrigger(newNamespace(t))
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionNotFound)
	if !suspended(t, trigger) {
		t.Error("it calls a Function that does not exist")
	}

	fn := newFunction(t, trigger.Namespace)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	job := cronJobOf(trigger)
	read(t, job)
	if args := job.Spec.JobTemplate.Spec.Template.Spec.Containers[0].Args; *job.Spec.Suspend || !slices.Contains(args, "--url="+fn.Status.URL+"/") {
		t.Errorf("suspended is %t, the arguments are %q", *job.Spec.Suspend, args)
	}
	if !metav1.IsControlledBy(job, trigger) {
		t.Error("the CronJob does not belong to the trigger, and would stay when that is deleted")
	}

	report(t, fn, func(fn *v1beta1.Function) {
		fn.Status.Conditions[0].Status, fn.Status.Conditions[0].Message = metav1.ConditionFalse, "a replica has ended"
	})
	if message := await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionUnavailable); !strings.Contains(message, "a replica has ended") {
		t.Error(message)
	}
	if suspended(t, trigger) {
		t.Error("what may work again in a minute is not called")
	}
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(0)) })
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionStopped)
	if !suspended(t, trigger) {
		t.Error("it calls a Function that is stopped")
	}
	if err := cluster.Delete(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionNotFound)
}

// The status reports the outcome of calls. The test acts as the CronJob controller and the kubelet.
func TestDelivered(t *testing.T) {
	t.Parallel()
	trigger := cronTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	cronJob := cronJobOf(trigger)
	read(t, cronJob)

	job := makeJob(t, cronJob, "nightly-29923380", "2026-11-23T03:00:00Z")
	pod := podOf(t, job)
	report(t, pod, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodFailed
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "deliver", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "the response was 400 Bad Request", FinishedAt: metav1.Now()},
		}}}
	})
	end(t, job, batchv1.JobFailureTarget, batchv1.JobFailed)
	want := "the call scheduled for 2026-11-23T03:00:00Z failed: the response was 400 Bad Request"
	if diff := cmp.Diff(want, await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonFailed)); diff != "" {
		t.Errorf("the message (-want +got):\n%s", diff)
	}
	if !meta.IsStatusConditionTrue(trigger.Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("the trigger is not ready because a call has failed")
	}

	end(t, makeJob(t, cronJob, "nightly-29924820", "2026-11-24T03:00:00Z"), batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	report(t, cronJob, func(job *batchv1.CronJob) { job.Status.LastSuccessfulTime = new(metav1.Now()) })
	await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonDelivered)
	eventually(t, "the status has the time of the last success", func() bool {
		read(t, trigger)
		return trigger.Status.LastSuccessfulTime.Equal(cronJob.Status.LastSuccessfulTime)
	})
}

// An injected container that does not terminate neither changes the outcome of a call nor keeps its
// Job. The test acts as the kubelet, and the pod stays Running.
func TestSidecar(t *testing.T) {
	t.Parallel()
	trigger := cronTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	cronJob := cronJobOf(trigger)
	read(t, cronJob)
	// A call from before the injection stays in the history and is not the last one.
	kept := makeJob(t, cronJob, "nightly-29921940", "2026-11-22T03:00:00Z")
	end(t, kept, batchv1.JobFailureTarget, batchv1.JobFailed)
	await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonFailed)

	finished := metav1.Now().Rfc3339Copy()
	delivered := makeJob(t, cronJob, "nightly-29923380", "2026-11-23T03:00:00Z")
	running := makeJob(t, cronJob, "nightly-29923381", "2026-11-23T03:01:00Z")
	podWithSidecar(t, running, corev1.ContainerState{Running: &corev1.ContainerStateRunning{}})
	podWithSidecar(t, delivered, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: finished}})
	await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonDelivered)
	gone(t, delivered)
	if read(t, trigger); !trigger.Status.LastSuccessfulTime.Equal(&finished) {
		t.Errorf("the last success is at %v, want %v", trigger.Status.LastSuccessfulTime, finished)
	}
	if c := meta.FindStatusCondition(trigger.Status.Conditions, v1alpha1.ConditionDelivered); c.Status != metav1.ConditionTrue {
		t.Errorf("after the Job was deleted it says %v", c)
	}

	failed := makeJob(t, cronJob, "nightly-29924820", "2026-11-24T03:00:00Z")
	podWithSidecar(t, failed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "the response was 400 Bad Request"}})
	if message := await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonFailed); !strings.Contains(message, "400 Bad Request") {
		t.Error(message)
	}
	gone(t, failed)
	killed := makeJob(t, cronJob, "nightly-29926260", "2026-11-25T03:00:00Z")
	podWithSidecar(t, killed, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}})
	eventually(t, "the end by the kernel is reported", func() bool {
		return strings.Contains(await(t, trigger, v1alpha1.ConditionDelivered, v1alpha1.ReasonFailed), "OOMKilled")
	})
	gone(t, killed)
	read(t, kept)
	read(t, running)
}

// podWithSidecar creates the pod of a Job with an injected container and the given state of the
// container deliver.
func podWithSidecar(t *testing.T, job *batchv1.Job, state corev1.ContainerState) {
	t.Helper()
	job = job.DeepCopy()
	spec := &job.Spec.Template.Spec
	spec.Containers = append([]corev1.Container{{Name: "a-proxy", Image: "proxy"}}, spec.Containers...)
	pod := podOf(t, job)
	report(t, pod, func(pod *corev1.Pod) {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: "a-proxy", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "deliver", State: state},
		}
	})
}

// gone waits until an object is deleted.
func gone(t *testing.T, object client.Object) {
	t.Helper()
	eventually(t, object.GetName()+" is deleted", func() bool {
		return apierrors.IsNotFound(cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object))
	})
}

// The status reports why the API server rejects the pod of a Job, although neither the Job nor the
// CronJob does. The test acts as the Job controller.
func TestQuota(t *testing.T) {
	t.Parallel()
	trigger := cronTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	cronJob := cronJobOf(trigger)
	read(t, cronJob)
	job := makeJob(t, cronJob, "nightly-29923380", "2026-11-23T03:00:00Z")
	const words = `pods "nightly-29923380-abcde" is forbidden: exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0`
	for name, event := range map[string]corev1.Event{
		"refusal":  {Reason: "FailedCreate", Message: "Error creating: " + words},
		"progress": {Reason: "SuccessfulCreate", Message: "Created pod: other"},
	} {
		event.ObjectMeta = metav1.ObjectMeta{Namespace: job.Namespace, Name: name}
		event.InvolvedObject = corev1.ObjectReference{APIVersion: "batch/v1", Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID}
		event.Type, event.LastTimestamp = corev1.EventTypeWarning, metav1.Now()
		create(t, &event)
	}
	if diff := cmp.Diff(`the pod of Job "nightly-29923380" was rejected: `+words, await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonApplyFailed)); diff != "" {
		t.Errorf("the message (-want +got):\n%s", diff)
	}
	podOf(t, job)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
}

// makeJob creates a Job of a CronJob as the CronJob controller does.
func makeJob(t *testing.T, cronJob *batchv1.CronJob, name, at string) *batchv1.Job {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: cronJob.Namespace, Name: name, Labels: cronJob.Spec.JobTemplate.Labels,
			Annotations:     map[string]string{batchv1.CronJobScheduledTimestampAnnotation: at},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(cronJob, batchv1.SchemeGroupVersion.WithKind("CronJob"))},
		},
		Spec: cronJob.Spec.JobTemplate.Spec,
	}
	create(t, job)
	return job
}

// podOf creates a pod of a Job as the Job controller does.
func podOf(t *testing.T, job *batchv1.Job) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: job.Namespace, GenerateName: job.Name + "-", Labels: job.Spec.Template.Labels,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))},
		},
		Spec: job.Spec.Template.Spec,
	}
	create(t, pod)
	return pod
}

// end sets the conditions of a finished Job.
func end(t *testing.T, job *batchv1.Job, conditions ...batchv1.JobConditionType) {
	t.Helper()
	report(t, job, func(job *batchv1.Job) {
		job.Status.StartTime = new(metav1.Now())
		for _, c := range conditions {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		}
		if conditions[1] == batchv1.JobComplete {
			job.Status.CompletionTime = new(metav1.Now())
		}
		job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	})
}

// An object of another owner is not changed until it is deleted.
func TestForeignCronJob(t *testing.T) {
	t.Parallel()
	trigger := cronTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	foreign := cronJobOf(trigger)
	foreign.Spec = batchv1.CronJobSpec{Schedule: "1 1 1 1 1", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "own", Image: "own"}}},
	}}}}
	create(t, foreign)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonNotOwned)
	await(t, trigger, v1alpha1.ConditionStalled, v1alpha1.ReasonNotOwned)
	read(t, foreign)
	if foreign.Spec.Schedule != "1 1 1 1 1" || len(foreign.OwnerReferences) > 0 {
		t.Errorf("the CronJob of somebody else is now %v", foreign)
	}
}

// Mistakes that only the user can fix are reported, and the CronJob is not changed.
func TestMistakes(t *testing.T) {
	t.Parallel()
	trigger := cronTrigger(newNamespace(t))
	newFunction(t, trigger.Namespace)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	for want, edit := range map[string]func(*v1alpha1.CronTrigger){
		"spec.schedule": func(t *v1alpha1.CronTrigger) { t.Spec.Schedule, t.Spec.TimeZone = "0 25 * * *", "Etc/UTC" },
		"spec.timeZone": func(t *v1alpha1.CronTrigger) { t.Spec.Schedule, t.Spec.TimeZone = "0 3 * * *", "Middle/Earth" },
	} {
		change(t, trigger, edit)
		if message := await(t, trigger, v1alpha1.ConditionStalled, v1alpha1.ReasonInvalidSpec); !strings.Contains(message, want) {
			t.Errorf("the message is %q, want %s in it", message, want)
		}
	}
	job := cronJobOf(trigger)
	read(t, job)
	if job.Spec.Schedule != "0 3 * * *" {
		t.Errorf("the schedule became %q", job.Spec.Schedule)
	}
	change(t, trigger, func(t *v1alpha1.CronTrigger) { t.Spec.Schedule, t.Spec.TimeZone = "0 3 * * *", "Europe/Berlin" })
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	if read(t, job); *job.Spec.TimeZone != "Europe/Berlin" {
		t.Errorf("the zone is %q", *job.Spec.TimeZone)
	}
}

// A trigger whose state is as desired is not written, and its CronJob is repaired.
func TestRest(t *testing.T) {
	t.Parallel()
	trigger := cronTrigger(newNamespace(t))
	fn := newFunction(t, trigger.Namespace)
	create(t, trigger)
	await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	job := cronJobOf(trigger)
	var before []string
	for i, schedule := range []string{"5 5 * * *", "", "", ""} {
		change(t, job, func(job *batchv1.CronJob) {
			metav1.SetMetaDataAnnotation(&job.ObjectMeta, "somebody", strings.Repeat("x", i+1))
			if schedule != "" {
				job.Spec.Schedule = schedule
			}
		})
		if schedule != "" {
			eventually(t, "the CronJob is repaired", func() bool { read(t, job); return job.Spec.Schedule == "0 3 * * *" })
		}
		// A reported change shows that the previous one has been processed.
		report(t, fn, func(fn *v1beta1.Function) { fn.Status.Conditions[0].Status = metav1.ConditionFalse })
		await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionUnavailable)
		report(t, fn, func(fn *v1beta1.Function) { fn.Status.Conditions[0].Status = metav1.ConditionTrue })
		await(t, trigger, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
		now := slices.DeleteFunc(writes.in(trigger.Namespace), func(w string) bool { return !strings.Contains(w, "/cronjobs/") })
		if i > 0 {
			if diff := cmp.Diff(before, now); diff != "" {
				t.Errorf("it has written the CronJob (-before +now):\n%s", diff)
			}
		}
		before = now
	}
}

// The API server rejects an invalid CronTrigger and names the field in the message.
func TestSchema(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	for name, test := range map[string]struct {
		edit func(*v1alpha1.CronTrigger)
		want string // "" if it is accepted
	}{
		"Least": {func(*v1alpha1.CronTrigger) {}, ""},
		"Most": {func(t *v1alpha1.CronTrigger) {
			t.Name, t.Spec.Method, t.Spec.Path = strings.Repeat("a", 52), "DELETE", "/a%20b?c=d&e"
			t.Spec.Headers, t.Spec.Body = map[string]v1alpha1.HeaderValue{"Content-Type": "text/plain"}, "$(BODY)"
		}, ""},
		"LongName":   {func(t *v1alpha1.CronTrigger) { t.Name = strings.Repeat("a", 53) }, "metadata.name"},
		"DottedName": {func(t *v1alpha1.CronTrigger) { t.Name = "a.b" }, "metadata.name"},
		"NoFunction": {func(t *v1alpha1.CronTrigger) { t.Spec.FunctionRef.Name = "" }, "spec.functionRef.name"},
		"NoSchedule": {func(t *v1alpha1.CronTrigger) { t.Spec.Schedule = "" }, "spec.schedule"},
		"ZoneTwice":  {func(t *v1alpha1.CronTrigger) { t.Spec.Schedule = "TZ=Etc/UTC 0 3 * * *" }, "set timeZone"},
		"Method":     {func(t *v1alpha1.CronTrigger) { t.Spec.Method = "BREW" }, "spec.method"},
		"Path":       {func(t *v1alpha1.CronTrigger) { t.Spec.Path = "tea" }, "path must begin with '/'"},
		"PathSpace":  {func(t *v1alpha1.CronTrigger) { t.Spec.Path = "/a b" }, "path must begin with '/'"},
		"Fragment":   {func(t *v1alpha1.CronTrigger) { t.Spec.Path = "/a#b" }, "path must begin with '/'"},
		"HeaderName": {func(t *v1alpha1.CronTrigger) { t.Spec.Headers = map[string]v1alpha1.HeaderValue{"A B": ""} }, "a name in headers"},
		"HeaderLine": {func(t *v1alpha1.CronTrigger) { t.Spec.Headers = map[string]v1alpha1.HeaderValue{"A": "b\r\nC: d"} }, "spec.headers.A"},
		"CloudEvent": {func(t *v1alpha1.CronTrigger) { t.Spec.Headers = map[string]v1alpha1.HeaderValue{"CE-ID": "1"} }, "headers must not contain"},
		"Connection": {func(t *v1alpha1.CronTrigger) { t.Spec.Headers = map[string]v1alpha1.HeaderValue{"Host": "other"} }, "headers must not contain"},
		"Body":       {func(t *v1alpha1.CronTrigger) { t.Spec.Body = strings.Repeat("x", 65537) }, "spec.body"},
		"WideBody":   {func(t *v1alpha1.CronTrigger) { t.Spec.Body = strings.Repeat("世", 43666) }, ""},
		"WiderBody":  {func(t *v1alpha1.CronTrigger) { t.Spec.Body = strings.Repeat("世", 43667) }, "body must be at most 131000 bytes"},
		"WidestBody": {func(t *v1alpha1.CronTrigger) { t.Spec.Body = strings.Repeat("\U0001f600", 65536) }, "body must be at most 131000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := cronTrigger(namespace)
			test.edit(trigger)
			err := cluster.Create(t.Context(), trigger, client.DryRunAll)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}
