package consumer

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/stream"
)

const (
	// recheck is the interval of queries to pods that have problems.
	recheck = 30 * time.Second

	// askInterval is the interval of queries to ready pods.
	askInterval = time.Minute

	// unreachableInterval is the interval of queries to pods that repeatedly do not respond. A
	// NetworkPolicy can deny all queries, and each occupies a worker until the request times out.
	unreachableInterval = 2 * time.Minute

	// refresh is the age of the last outcome in the status at which a later outcome of the same
	// kind is written.
	refresh = 10 * time.Minute

	// recent is how long Delivered stays False after an event that was not delivered.
	recent = time.Hour
)

// Report reports the outcome of the last delivery and whether an event is blocked.
func (k Kind[T]) Report(t T, seen Seen) time.Duration {
	status := t.StreamStatus()
	status.Partitions = cmp.Or(seen.Partitions, status.Partitions)
	updateLast(status, seen)
	before := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDelivered)
	repeatedly := before != nil && before.Reason == v1alpha1.ReasonConsumerNotReachable
	c := delivered(status.LastDelivery, seen)
	c.Type, c.ObservedGeneration = v1alpha1.ConditionDelivered, t.GetGeneration()
	meta.SetStatusCondition(&status.Conditions, c)
	switch {
	case seen.Unreachable != "" && repeatedly:
		return unreachableInterval
	case seen.Unreachable != "", len(seen.Problems) > 0:
		return recheck
	case seen.Deployment.Status.ReadyReplicas > 0:
		return askInterval
	case c.Status == metav1.ConditionFalse:
		return status.LastDelivery.Time.Add(recent).Sub(seen.Time) + time.Second
	}
	return 0
}

// outcomes maps the outcomes that pods report to those in the status.
var outcomes = map[stream.Outcome]string{
	stream.Delivered:    v1alpha1.ReasonDelivered,
	stream.DeadLettered: v1alpha1.ReasonDeadLettered,
	stream.Dropped:      v1alpha1.ReasonDropped,
}

// updateLast updates the last outcome in the status if it differs, or if the one in the status is
// older than refresh: each update is a write to the API server.
func updateLast(status *v1alpha1.StreamTriggerStatus, seen Seen) {
	if seen.Last == nil || outcomes[seen.Last.Outcome] == "" {
		return
	}
	at := seen.Last.Time
	if at.After(seen.Time) {
		at = seen.Time // the clock of the node is ahead
	}
	last, before := v1alpha1.StreamDelivery{Outcome: outcomes[seen.Last.Outcome], Time: metav1.NewTime(at.Truncate(time.Second))}, status.LastDelivery
	if before == nil || before.Outcome != last.Outcome || seen.Time.Sub(before.Time.Time) >= refresh && !last.Time.Equal(&before.Time) {
		status.LastDelivery = &last
	}
}

// delivered returns the condition Delivered, without its type.
func delivered(last *v1alpha1.StreamDelivery, seen Seen) metav1.Condition {
	for _, p := range seen.Problems {
		if p.Reason == v1alpha1.ReasonBlocked || p.Reason == v1alpha1.ReasonDeadLetterFailed {
			return metav1.Condition{Status: metav1.ConditionFalse, Reason: p.Reason, Message: p.Message}
		}
	}
	switch {
	case seen.Unreachable != "":
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonConsumerNotReachable, Message: seen.Unreachable}
	case last == nil:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonNoEvents, Message: "no delivery has finished yet"}
	case last.Outcome == v1alpha1.ReasonDelivered:
		return metav1.Condition{Status: metav1.ConditionTrue, Reason: last.Outcome, Message: "the function accepted the last event; no event is blocked"}
	}
	// Without a time in the message, the condition changes only with the outcome.
	c := metav1.Condition{Status: metav1.ConditionFalse, Reason: last.Outcome, Message: "the last event was written to the dead letter; its header Goless-Reason contains the cause"}
	if last.Outcome == v1alpha1.ReasonDropped {
		c.Message = "the last event was dropped; the log of the consumer pod contains the cause"
	}
	if seen.Time.Sub(last.Time.Time) >= recent {
		c.Status = metav1.ConditionUnknown
		c.Message += ", and no other event arrived for an hour"
	}
	return c
}
