package consumer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/consumer"
	"goless.io/trigger/internal/stream"
)

// The condition Delivered reports the outcome of events. A blocked event takes precedence.
func TestReport(t *testing.T) {
	now := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	before := func(outcome stream.Outcome, ago time.Duration) *stream.Last {
		return &stream.Last{Outcome: outcome, Time: now.Add(-ago)}
	}
	blocked := []stream.Problem{{Reason: stream.Blocked, Message: "the function does not accept event 7"}}
	for name, test := range map[string]struct {
		answers consumer.Answers
		stopped bool // there is no pod
		status  metav1.ConditionStatus
		reason  string
		again   time.Duration
	}{
		"NoPod":         {consumer.Answers{}, true, metav1.ConditionUnknown, v1alpha1.ReasonNoEvents, 0},
		"NoEvents":      {consumer.Answers{}, false, metav1.ConditionUnknown, v1alpha1.ReasonNoEvents, time.Minute},
		"Delivered":     {consumer.Answers{Last: before(stream.Delivered, 0)}, false, metav1.ConditionTrue, v1alpha1.ReasonDelivered, time.Minute},
		"LongAgo":       {consumer.Answers{Last: before(stream.Delivered, 48*time.Hour)}, false, metav1.ConditionTrue, v1alpha1.ReasonDelivered, time.Minute},
		"Blocked":       {consumer.Answers{Last: before(stream.Delivered, 0), Problems: blocked}, false, metav1.ConditionFalse, v1alpha1.ReasonBlocked, 30 * time.Second},
		"DeadLettered":  {consumer.Answers{Last: before(stream.DeadLettered, 59*time.Minute)}, false, metav1.ConditionFalse, v1alpha1.ReasonDeadLettered, time.Minute},
		"Dropped":       {consumer.Answers{Last: before(stream.Dropped, 0)}, false, metav1.ConditionFalse, v1alpha1.ReasonDropped, time.Minute},
		"NotRecent":     {consumer.Answers{Last: before(stream.DeadLettered, time.Hour)}, false, metav1.ConditionUnknown, v1alpha1.ReasonDeadLettered, time.Minute},
		"ClockAhead":    {consumer.Answers{Last: before(stream.Dropped, -time.Hour)}, false, metav1.ConditionFalse, v1alpha1.ReasonDropped, time.Minute},
		"StoppedSince":  {consumer.Answers{Last: before(stream.Dropped, 50*time.Minute)}, true, metav1.ConditionFalse, v1alpha1.ReasonDropped, 10*time.Minute + time.Second},
		"NotReachable":  {consumer.Answers{Unreachable: "i/o timeout"}, false, metav1.ConditionUnknown, v1alpha1.ReasonConsumerNotReachable, 30 * time.Second},
		"NotUnderstood": {consumer.Answers{Last: before("eaten", 0)}, false, metav1.ConditionUnknown, v1alpha1.ReasonNoEvents, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			trigger, seen := records(), consumer.Seen{Time: now, Answers: test.answers, Deployment: &appsv1.Deployment{}}
			if !test.stopped {
				seen.Deployment.Status.ReadyReplicas = 1
			}
			again := consumer.Kind[*v1alpha1.KafkaTrigger]{}.Report(trigger, seen)
			c := meta.FindStatusCondition(trigger.Status.Conditions, v1alpha1.ConditionDelivered)
			if c.Status != test.status || c.Reason != test.reason || again != test.again {
				t.Errorf("Delivered is %s, %s, again after %s, want %s, %s, %s", c.Status, c.Reason, again, test.status, test.reason, test.again)
			}
			if last := trigger.Status.LastDelivery; last != nil && last.Time.After(now) {
				t.Errorf("the last delivery is at %s, which has not come", last.Time)
			}
		})
	}
}

// A ready pod that does not respond is queried less often, but not after its first failure: each
// query occupies a worker.
func TestNotReachable(t *testing.T) {
	trigger, k := records(), consumer.Kind[*v1alpha1.KafkaTrigger]{}
	seen := consumer.Seen{Time: time.Now(), Answers: consumer.Answers{Unreachable: "i/o timeout"}, Deployment: &appsv1.Deployment{}}
	got := []time.Duration{k.Report(trigger, seen), k.Report(trigger, seen)}
	if diff := cmp.Diff([]time.Duration{30 * time.Second, 2 * time.Minute}, got); diff != "" {
		t.Errorf("it is asked again after (-want +got):\n%s", diff)
	}
}

// The status is written rarely, however many events there are, and not at all without events.
func TestWritesOfStatus(t *testing.T) {
	for name, test := range map[string]struct {
		outcome func(time.Duration) stream.Outcome
		last    func(time.Duration) time.Duration // time of the last event, since the start
		most    int
	}{
		"None":   {func(time.Duration) stream.Outcome { return stream.Delivered }, func(time.Duration) time.Duration { return 0 }, 1},
		"Steady": {func(time.Duration) stream.Outcome { return stream.DeadLettered }, func(d time.Duration) time.Duration { return d }, 7},
		"Mixed": {func(d time.Duration) stream.Outcome {
			return []stream.Outcome{stream.Delivered, stream.Dropped}[int(d.Minutes())%2]
		}, func(d time.Duration) time.Duration { return d }, 61},
	} {
		t.Run(name, func(t *testing.T) {
			trigger, start, writes := records(), time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC), 0
			seen := consumer.Seen{Deployment: &appsv1.Deployment{Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}}
			for d := time.Duration(0); d <= time.Hour; {
				seen.Time, seen.Last = start.Add(d), &stream.Last{Outcome: test.outcome(d), Time: start.Add(test.last(d))}
				before := trigger.DeepCopy()
				d += consumer.Kind[*v1alpha1.KafkaTrigger]{}.Report(trigger, seen)
				if !cmp.Equal(before.Status, trigger.Status) {
					writes++
				}
			}
			if writes > test.most || trigger.Status.LastDelivery == nil {
				t.Errorf("the status was written %d times in an hour, want at most %d: %+v", writes, test.most, trigger.Status)
			}
		})
	}
}
