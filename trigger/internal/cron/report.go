package cron

import (
	"cmp"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/apply"
)

// soon is the requeue delay before a Job is deleted. After this time, the cache contains the
// status.
const soon = time.Second

// Report reports the outcome of the last call, or that a call was missed. It returns the requeue
// delay: until the next call would count as missed, until a reported Job can be deleted, or until a
// Job must be checked again, whichever is first. 0 means no requeue.
func (k Kind) Report(t *v1alpha1.CronTrigger, seen Seen) time.Duration {
	if !metav1.IsControlledBy(seen.CronJob, t) {
		return 0
	}
	t.Status.LastScheduleTime = seen.CronJob.Status.LastScheduleTime
	t.Status.LastSuccessfulTime = latest(t.Status.LastSuccessfulTime, seen.CronJob.Status.LastSuccessfulTime)
	missed, again := late(t, seen)
	again = next(seen, again)
	last, how := lastEnded(t, seen)
	delivered := metav1.Condition{Type: v1alpha1.ConditionDelivered, Status: metav1.ConditionFalse, ObservedGeneration: t.Generation}
	switch {
	case missed != "":
		delivered.Reason, delivered.Message = v1alpha1.ReasonMissed, missed
	case last == nil:
		return again
	case how.delivered:
		delivered.Status, delivered.Reason = metav1.ConditionTrue, v1alpha1.ReasonDelivered
		delivered.Message = "the function accepted the last call"
	default:
		delivered.Reason = v1alpha1.ReasonFailed
		delivered.Message = fmt.Sprintf("the call scheduled for %s failed: %s", scheduled(last).UTC().Format(time.RFC3339), how.reason)
	}
	meta.SetStatusCondition(&t.Status.Conditions, delivered)
	return again
}

// late returns a message about the first scheduled time that passed without a call and is too old
// for one, or "". It also returns the requeue delay.
func late(t *v1alpha1.CronTrigger, seen Seen) (missed string, again time.Duration) {
	job := seen.CronJob
	schedule, err := parse(t)
	if err != nil || job.Spec.Suspend != nil && *job.Spec.Suspend {
		return "", 0
	}
	// The schedule may have been different before it was last written.
	since := job.CreationTimestamp.Time
	for _, entry := range job.ManagedFields {
		if entry.Manager == apply.FieldOwner && entry.Subresource == "" && entry.Time != nil && entry.Time.After(since) {
			since = entry.Time.Time
		}
	}
	if last := job.Status.LastScheduleTime; last != nil && last.After(since) {
		since = last.Time
	}
	next, skipped := schedule.next(since)
	if !next.IsZero() && seen.Time.After(next.Add(lateness)) {
		missed = fmt.Sprintf("no call began within %s of its scheduled time, %s; see kubectl describe cronjob %s",
			minutes(lateness), next.Format(time.RFC3339), t.Name)
		if skipped != "" {
			missed = fmt.Sprintf("no call was made at %s, which does not exist in %s because clocks were set forward; "+
				"for a call on each day, change spec.schedule or set spec.timeZone to a zone without daylight saving time", skipped, t.Spec.TimeZone)
		}
		next, _ = schedule.next(seen.Time)
	}
	if next.IsZero() { // such as on 30 February
		return missed, 0
	}
	return missed, next.Add(lateness).Sub(seen.Time) + time.Second
}

// lastEnded returns the Job with the latest scheduled time that has an outcome, and the outcome. It
// returns nil if the status already reports that outcome or a later one. It also stores in the
// status what would be lost when the Jobs are deleted.
func lastEnded(t *v1alpha1.CronTrigger, seen Seen) (last *batchv1.Job, how *outcome) {
	for i := range seen.Jobs {
		job := &seen.Jobs[i]
		o := outcomeOf(job, seen)
		if o == nil {
			continue
		}
		if last == nil || scheduled(job).After(scheduled(last)) {
			last, how = job, o
		}
		if o.delivered && lingers(job, seen) {
			t.Status.LastSuccessfulTime = latest(t.Status.LastSuccessfulTime, &metav1.Time{Time: o.at})
		}
	}
	c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionDelivered)
	missed := c != nil && c.Reason == v1alpha1.ReasonMissed // replaces the outcome in the condition
	if last == nil || reported(t, last) && (!missed || !t.Status.LastReportedTime.Time.Equal(scheduled(last))) {
		return nil, nil
	}
	t.Status.LastReportedTime = &metav1.Time{Time: scheduled(last)}
	return last, how
}

// next returns the requeue delay that the Jobs require, but at most again. 0 means no requeue.
func next(seen Seen, again time.Duration) time.Duration {
	for i := range seen.Jobs {
		job, after := &seen.Jobs[i], time.Duration(0)
		switch {
		case lingers(job, seen):
			after = soon
		case outcomeByJob(job, nil) == nil && lacksPod(job, seen):
			after = cmp.Or(max(0, job.CreationTimestamp.Add(podSoon).Sub(seen.Time)), recheckInterval)
		}
		if after > 0 && (again == 0 || after < again) {
			again = after
		}
	}
	return again
}

// latest returns the later of two times. Both may be nil.
func latest(a, b *metav1.Time) *metav1.Time {
	if a == nil || b != nil && b.After(a.Time) {
		return b
	}
	return a
}

// scheduled returns the time for which a Job was created, or its creation time if it was created
// manually.
func scheduled(job *batchv1.Job) time.Time {
	if at, err := time.Parse(time.RFC3339, job.Annotations[batchv1.CronJobScheduledTimestampAnnotation]); err == nil {
		return at
	}
	return job.CreationTimestamp.Time
}

// minutes formats a duration of whole minutes.
func minutes(d time.Duration) string { return fmt.Sprintf("%d minutes", int(d.Minutes())) }
