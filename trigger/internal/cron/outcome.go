package cron

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/api/v1alpha1"
)

// Exit codes of cmd/deliver that report the outcome of its call. With any other code, it was
// terminated before the outcome was known.
const (
	exitDelivered   = 0
	exitUndelivered = 1
	exitUsage       = 2
	exitInterrupted = 3
)

// An outcome is the outcome of the call of a Job.
type outcome struct {
	delivered bool
	at        time.Time // time of delivery; zero if only the Job reports it
	reason    string    // cause, if it was not delivered
}

// outcomeOf returns the outcome of a Job, or nil if it has none yet. The container deliver takes
// precedence over the Job, because the phase of a pod, and therefore the conditions of its Job,
// also depend on injected containers.
func outcomeOf(job *batchv1.Job, seen Seen) *outcome {
	var last *outcome // of the container that terminated last, with its time
	final := false
	for i := range seen.Pods {
		ended := endOf(&seen.Pods[i])
		if ended == nil || !metav1.IsControlledBy(&seen.Pods[i], job) {
			continue
		}
		if ended.ExitCode == exitDelivered {
			return &outcome{delivered: true, at: ended.FinishedAt.Time}
		}
		final = final || decided(&seen.Pods[i])
		if last == nil || !ended.FinishedAt.Time.Before(last.at) {
			last = &outcome{at: ended.FinishedAt.Time, reason: cmp.Or(ended.Message,
				fmt.Sprintf("the container %s exited with code %d (%s)", container, ended.ExitCode, cmp.Or(ended.Reason, "no reason given")))}
		}
	}
	if final {
		return last
	}
	if said := seen.Refused[job.UID]; last == nil && said != "" {
		last = &outcome{reason: said}
	}
	return outcomeByJob(job, last)
}

// outcomeByJob returns the outcome according to the conditions of a Job, or nil if the Job has not
// finished. If the Job has failed, it returns last, unless last is nil.
func outcomeByJob(job *batchv1.Job, last *outcome) *outcome {
	for _, c := range job.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			return &outcome{delivered: true}
		case c.Type == batchv1.JobFailed && last != nil:
			return last
		case c.Type == batchv1.JobFailed:
			return &outcome{reason: cmp.Or(c.Message, c.Reason)}
		}
	}
	return nil
}

// lingers reports whether the call of a Job has ended but the Job has not finished, because another
// container of its pod is still running.
func lingers(job *batchv1.Job, seen Seen) bool {
	return outcomeByJob(job, nil) == nil && slices.ContainsFunc(seen.Pods, func(pod corev1.Pod) bool {
		return metav1.IsControlledBy(&pod, job) && endOf(&pod) != nil && accompanied(&pod)
	}) && outcomeOf(job, seen) != nil
}

// decided reports whether no other pod will repeat the call of a pod whose container deliver has
// terminated without delivering. The Job controller replaces a pod that failed for a reason other
// than the response of the function, but only after all its containers have terminated.
func decided(pod *corev1.Pod) bool {
	switch endOf(pod).ExitCode {
	case exitUndelivered, exitUsage:
		return true
	case exitInterrupted: // the pod is terminating
		return false
	}
	return pod.DeletionTimestamp == nil && accompanied(pod)
}

// endOf returns the termination state of the container deliver, or nil if it has not terminated.
func endOf(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == container {
			return c.State.Terminated
		}
	}
	return nil
}

// accompanied reports whether another container of the pod has not terminated.
func accompanied(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name != container && c.State.Terminated == nil
	})
}

// reported reports whether the status contains the outcome of the Job or of a later one.
func reported(t *v1alpha1.CronTrigger, job *batchv1.Job) bool {
	last := t.Status.LastReportedTime
	return last != nil && !scheduled(job).After(last.Time)
}
