package cron

import (
	"cmp"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
)

// Report tells how the last call ended, or that there was none when there should have been.
// It is looked at again when the next call is late.
func (k Kind) Report(t *v1alpha1.CronTrigger, seen Seen) time.Duration {
	if !metav1.IsControlledBy(seen.CronJob, t) {
		return 0
	}
	t.Status.LastScheduleTime, t.Status.LastSuccessfulTime = seen.CronJob.Status.LastScheduleTime, seen.CronJob.Status.LastSuccessfulTime
	missed, again := late(t, seen)
	delivered := metav1.Condition{Type: v1alpha1.ConditionDelivered, Status: metav1.ConditionFalse, ObservedGeneration: t.Generation}
	last, ended := lastEnded(seen.Jobs)
	switch {
	case !missed.IsZero():
		delivered.Reason = v1alpha1.ReasonMissed
		delivered.Message = fmt.Sprintf("no call was begun within %s of %s, for which it was scheduled: kubectl describe cronjob %s may say why",
			minutes(lateness), missed.Format(time.RFC3339), t.Name)
	case last == nil:
		return again
	case ended.Type == batchv1.JobComplete:
		delivered.Status, delivered.Reason = metav1.ConditionTrue, v1alpha1.ReasonDelivered
		delivered.Message = "the function has taken the last call"
	default:
		delivered.Reason = v1alpha1.ReasonFailed
		delivered.Message = fmt.Sprintf("the call scheduled for %s has failed: %s", scheduled(last).UTC().Format(time.RFC3339), why(last, ended, seen.Pods))
	}
	meta.SetStatusCondition(&t.Status.Conditions, delivered)
	return again
}

// late returns the first scheduled time that has passed without a call, and is too late for one
// now; zero when there is none. It also returns after how long to look again.
func late(t *v1alpha1.CronTrigger, seen Seen) (missed time.Time, again time.Duration) {
	job := seen.CronJob
	schedule, err := parse(t)
	if err != nil || job.Spec.Suspend != nil && *job.Spec.Suspend {
		return time.Time{}, 0
	}
	// Before the schedule was written there was another one.
	since := job.CreationTimestamp.Time
	for _, entry := range job.ManagedFields {
		if entry.Manager == apply.FieldOwner && entry.Subresource == "" && entry.Time != nil && entry.Time.After(since) {
			since = entry.Time.Time
		}
	}
	if last := job.Status.LastScheduleTime; last != nil && last.After(since) {
		since = last.Time
	}
	next := schedule.Next(since)
	if !next.IsZero() && seen.Time.After(next.Add(lateness)) {
		missed, next = next, schedule.Next(seen.Time)
	}
	if next.IsZero() { // on 30 February, for example
		return missed, 0
	}
	return missed, next.Add(lateness).Sub(seen.Time) + time.Second
}

// lastEnded returns the Job that was scheduled last of those that have ended, and the condition
// that says how; nil when none has.
func lastEnded(jobs []batchv1.Job) (last *batchv1.Job, how batchv1.JobCondition) {
	for i := range jobs {
		for _, c := range jobs[i].Status.Conditions {
			ended := c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
			if ended && (last == nil || scheduled(&jobs[i]).After(scheduled(last))) {
				last, how = &jobs[i], c
			}
		}
	}
	return last, how
}

// scheduled is the time for which a Job was made; that of its creation where somebody has made
// it by hand.
func scheduled(job *batchv1.Job) time.Time {
	if at, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]); err == nil {
		return at
	}
	return job.CreationTimestamp.Time
}

// why says why a Job has failed: what its last pod has said, or else what Kubernetes says.
func why(job *batchv1.Job, how batchv1.JobCondition, pods []corev1.Pod) string {
	said, at := "", time.Time{}
	for _, pod := range pods {
		for _, c := range pod.Status.ContainerStatuses {
			if ended := c.State.Terminated; metav1.IsControlledBy(&pod, job) && ended != nil && ended.Message != "" && !ended.FinishedAt.Time.Before(at) {
				said, at = ended.Message, ended.FinishedAt.Time
			}
		}
	}
	return cmp.Or(said, how.Message, how.Reason)
}

// minutes writes a duration of whole minutes.
func minutes(d time.Duration) string { return fmt.Sprintf("%d minutes", int(d.Minutes())) }
