package observe

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// TestRun is a Job that runs the tests of a Function.
type TestRun struct {
	Job batchv1.Job

	// Pod is the newest pod of the Job; nil if there is none or if the Job is complete. PodErr is the
	// reason why it could not be read.
	Pod    *corev1.Pod
	PodErr error
}

// Passed reports whether the Job is complete.
func (r *TestRun) Passed() bool { return r.condition(batchv1.JobComplete) != nil }

// Failed returns the condition Failed or FailureTarget of the Job; nil if it has neither. A Job whose
// pod is on a lost node may never become Failed.
func (r *TestRun) Failed() *batchv1.JobCondition {
	return cmp.Or(r.condition(batchv1.JobFailed), r.condition(batchv1.JobFailureTarget))
}

// condition returns a condition of the Job that is True; nil if it is not.
func (r *TestRun) condition(kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i, c := range r.Job.Status.Conditions {
		if c.Type == kind && c.Status == corev1.ConditionTrue {
			return &r.Job.Status.Conditions[i]
		}
	}
	return nil
}

// testRuns reads the Jobs of a Function from the cache, and their pods from the API server. The pods
// do not have the label by which the cache selects pods.
func (o *Observer) testRuns(ctx context.Context, fn *v1beta1.Function) (all []TestRun, err error) {
	var jobs batchv1.JobList
	if err := o.list(ctx, fn, &jobs); err != nil {
		return nil, err
	}
	for _, job := range owned(jobs.Items, fn.UID) {
		run := TestRun{Job: job}
		if !run.Passed() {
			run.Pod, run.PodErr = o.testPod(ctx, &job)
		}
		all = append(all, run)
	}
	return all, nil
}

// testPod returns the newest pod of a Job; nil if it has none.
func (o *Observer) testPod(ctx context.Context, job *batchv1.Job) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := o.Live.List(ctx, &pods, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name}); err != nil {
		return nil, fmt.Errorf("reading the pods of Job %q: %w", job.Name, err)
	}
	ofJob := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, job) })
	if len(ofJob) == 0 {
		return nil, nil
	}
	return new(slices.MaxFunc(ofJob, func(a, b corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})), nil
}
