package function_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// tested makes the tests of a source a condition of its rollout.
func tested(fn *v1beta1.Function) {
	shared(fn)
	fn.Spec.Build.Test = true
}

// job waits for the Job that runs the tests of the latest source.
func job(t *testing.T, fn *v1beta1.Function) *batchv1.Job {
	t.Helper()
	return await(t, fn, desired.TestJobName(get(t, fn), configured), &batchv1.Job{}, nil)
}

// end ends a Job as its controller does, with a pod that has failed if code is not 0. There is no
// controller in these tests.
func end(t *testing.T, run *batchv1.Job, code int32, message string) {
	t.Helper()
	ended := metav1.Now()
	run.Status.StartTime = &ended
	kinds := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	if code == 0 {
		run.Status.CompletionTime, run.Status.Succeeded = &ended, 1
	} else {
		kinds = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: run.Namespace, Name: run.Name, Labels: run.Spec.Template.Labels}, Spec: run.Spec.Template.Spec}
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(run, batchv1.SchemeGroupVersion.WithKind("Job"))}
		if err := cluster.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		pod.Status = corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
			Name: desired.FunctionContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: message}},
		}}}
		if err := cluster.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		run.Status.Failed = 1
	}
	for _, kind := range kinds {
		run.Status.Conditions = append(run.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: ended, Message: "it ended"})
	}
	if err := cluster.Status().Update(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}

// A version is deployed when its tests have passed, and not if they fail. The order for its tests
// follows that for the source. The Job is deleted afterwards, with its pods.
func TestTests(t *testing.T) {
	fn := create(t, "tested", tested)
	first := job(t, fn)
	awaitReady(t, fn, v1beta1.ReasonTesting)
	if exists(t, fn, fn.Name, &appsv1.Deployment{}) {
		t.Error("the function was deployed before its tests have passed")
	}
	orders := service.Orders(fn.Namespace)
	if len(orders) != 2 || orders[0].Tests || !orders[1].Tests || orders[1].Source != hello {
		t.Errorf("the orders are %+v", orders)
	}
	end(t, first, 0, "")
	serve(t, fn)
	deployed := await(t, fn, fn.Name, &appsv1.Deployment{}, nil)
	eventually(t, "Job deleted", func() bool { return !exists(t, fn, first.Name, &batchv1.Job{}) })

	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function += "// fails\n" })
	failing := job(t, fn)
	end(t, failing, 1, `{"reason":"TestsFailed","message":"TestA failed","diagnostics":[{"file":"a_test.go","line":7,"message":"no"}],"output":"FAIL"}`)
	awaitReady(t, fn, v1beta1.ReasonTestsFailed)
	if build := get(t, fn).Status.Build; build == nil || build.Output != "FAIL" || len(build.Diagnostics) != 1 {
		t.Errorf("the build is %+v", build)
	}
	if now := await(t, fn, fn.Name, &appsv1.Deployment{}, nil); now.Generation != deployed.Generation {
		t.Error("the Deployment was changed")
	}

	// If someone deletes the Job, the tests run again.
	if err := cluster.Delete(t.Context(), failing, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	again := await(t, fn, failing.Name, &batchv1.Job{}, func(job *batchv1.Job) bool { return job.UID != failing.UID })
	end(t, again, 0, "")
	await(t, fn, fn.Name, &appsv1.Deployment{}, func(d *appsv1.Deployment) bool { return d.Generation > deployed.Generation })
	serve(t, fn)
	eventually(t, "the failures are removed from the status", func() bool {
		build := get(t, fn).Status.Build
		return build != nil && build.Output == "" && len(build.Diagnostics) == 0
	})
}

// A Job of the same name that belongs to somebody else is not used: its result would allow a rollout.
func TestForeignJob(t *testing.T) {
	fn := create(t, "foreign", func(fn *v1beta1.Function) { tested(fn); fn.Spec.Function = "package p\n" })
	valid := get(t, fn)
	valid.Spec.Function = hello
	pod := corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: desired.FunctionContainer, Image: "theirs"}}}
	theirs := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: desired.TestJobName(valid, configured)}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}}
	if err := cluster.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	end(t, theirs, 0, "")
	change(t, fn, func(fn *v1beta1.Function) { fn.Spec.Function = hello })
	awaitReady(t, fn, v1beta1.ReasonNotOwned)
	if exists(t, fn, fn.Name, &appsv1.Deployment{}) {
		t.Error("the function was deployed")
	}
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); apierrors.IsNotFound(err) || len(theirs.OwnerReferences) > 0 {
		t.Errorf("the Job was changed: %v", err)
	}
}
