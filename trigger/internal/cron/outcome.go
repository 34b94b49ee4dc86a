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

// Exit codes of cmd/deliver that say how its call has ended. With any other code, it was ended
// before it knew.
const (
	exitDelivered   = 0
	exitUndelivered = 1
	exitUsage       = 2
	exitInterrupted = 3
)

// An outcome is how the call of a Job ended.
type outcome struct {
	delivered bool
	at        time.Time // when it was delivered; zero where only the Job says so
	reason    string    // why it was not delivered
}

// outcomeOf returns the outcome of a Job; nil while it has none. What the container deliver says
// counts before what the Job says: the phase of a pod, and so the conditions of its Job, also
// depend on containers that others have injected.
func outcomeOf(job *batchv1.Job, seen Seen) *outcome {
	var last *outcome // of a container that has ended, and when
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
				fmt.Sprintf("the container %s ended with exit code %d (%s)", container, ended.ExitCode, cmp.Or(ended.Reason, "no reason given")))}
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

// outcomeByJob returns the outcome that the conditions of a Job report; nil while it has not ended.
// One that failed has the outcome that was last seen of it, if any.
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

// lingers reports whether a Job has not ended although its call has, because another container of
// its pod still runs.
func lingers(job *batchv1.Job, seen Seen) bool {
	return outcomeByJob(job, nil) == nil && slices.ContainsFunc(seen.Pods, func(pod corev1.Pod) bool {
		return metav1.IsControlledBy(&pod, job) && endOf(&pod) != nil && accompanied(&pod)
	}) && outcomeOf(job, seen) != nil
}

// decided reports whether no other pod is going to repeat the call of one whose container deliver
// has ended without delivering. The Job controller replaces a pod that has failed for another
// reason than the function's answer, but only once all its containers have ended.
func decided(pod *corev1.Pod) bool {
	switch endOf(pod).ExitCode {
	case exitUndelivered, exitUsage:
		return true
	case exitInterrupted: // the pod is about to end
		return false
	}
	return pod.DeletionTimestamp == nil && accompanied(pod)
}

// endOf returns how the container deliver of a pod has ended; nil while it has not.
func endOf(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for i := range pod.Status.ContainerStatuses {
		if c := &pod.Status.ContainerStatuses[i]; c.Name == container {
			return c.State.Terminated
		}
	}
	return nil
}

// accompanied reports whether a pod has another container, and that has not ended.
func accompanied(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
		return c.Name != container && c.State.Terminated == nil
	})
}

// reported reports whether the status has the outcome of a Job, or that of a later one.
func reported(t *v1alpha1.CronTrigger, job *batchv1.Job) bool {
	last := t.Status.LastReportedTime
	return last != nil && !scheduled(job).After(last.Time)
}
