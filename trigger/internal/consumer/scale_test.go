package consumer_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/consumer"
	"goless.io/trigger/internal/functionref"
	"goless.io/trigger/internal/keda"
)

// planned returns the note and the problem of a trigger with spec.scale.
func planned(t *v1alpha1.KafkaTrigger, seen consumer.Seen) (note string, problem *functionref.Problem) {
	seen.Deployment, seen.Former, seen.Service, seen.ScaledObject = &appsv1.Deployment{}, &appsv1.Deployment{}, &corev1.Service{}, keda.New()
	plan := consumer.Kind[*v1alpha1.KafkaTrigger]{Program: consumer.Kafka, KEDA: true}.Plan(t, seen)
	return plan.Note, plan.Problem
}

// The maximum number of replicas is the number of concurrent requests: more replicas would receive
// none.
func TestMaxReplicas(t *testing.T) {
	for name, test := range map[string]struct {
		least, most           int32 // of spec.scale
		concurrency           int32
		partitions, lastKnown int32
		want                  string // in the note; "" if spec.scale.max applies
	}{
		"Unlimited":       {1, 8, 16, 0, 0, ""},
		"Equal":           {1, 8, 8, 8, 8, ""},
		"Concurrency":     {1, 20, 16, 0, 0, "up to 16 replicas instead of spec.scale.max, 20: spec.concurrency is 16"},
		"Partitions":      {1, 20, 16, 3, 2, "up to 3 replicas instead of spec.scale.max, 20: the number of partitions of the topic is 3"},
		"LastKnown":       {1, 20, 16, 0, 3, "up to 3 replicas instead of spec.scale.max, 20: the number of partitions of the topic is 3"},
		"ManyPartitions":  {1, 20, 16, 100, 0, "up to 16 replicas instead of spec.scale.max, 20: spec.concurrency is 16"},
		"NotLessThanMin":  {5, 20, 16, 3, 0, "up to 5 replicas instead of spec.scale.max, 20: the number of partitions of the topic is 3"},
		"MinIsMax":        {5, 5, 1, 1, 0, ""},
		"NoneWhileNoLoad": {0, 20, 1, 0, 0, "up to 1 replicas instead of spec.scale.max, 20: spec.concurrency is 1"},
	} {
		t.Run(name, func(t *testing.T) {
			trigger, seen := records(), consumer.Seen{}
			trigger.Spec.Scale, trigger.Spec.Concurrency = &v1alpha1.StreamScale{Min: &test.least, Max: test.most}, test.concurrency
			trigger.Status.Partitions, seen.Partitions = test.lastKnown, test.partitions
			if note, _ := planned(trigger, seen); !strings.Contains(note, test.want) || test.want == "" && note != "" {
				t.Errorf("the note is %q, want %q in it", note, test.want)
			}
		})
	}
}

// The oldest trigger scales a Function. Triggers of the same second are ordered by kind and name.
func TestScaler(t *testing.T) {
	second := time.Date(2026, 11, 23, 3, 0, 0, 0, time.UTC)
	scaling := func(trigger v1alpha1.StreamTrigger, name string, created time.Time) v1alpha1.StreamTrigger {
		trigger.SetName(name)
		trigger.SetCreationTimestamp(metav1.NewTime(created))
		trigger.CommonSpec().Scale = &v1alpha1.StreamScale{Max: 5}
		return trigger
	}
	for name, test := range map[string]struct {
		others []v1alpha1.StreamTrigger
		want   string // in the message; "" if records scales
	}{
		"Alone":       {nil, ""},
		"Older":       {[]v1alpha1.StreamTrigger{scaling(orders(), "orders", second.Add(-time.Second))}, `can scale Function "checkout", which is NATSTrigger "orders"`},
		"Younger":     {[]v1alpha1.StreamTrigger{scaling(orders(), "a", second.Add(time.Second)), scaling(records(), "a", second.Add(time.Second))}, ""},
		"SameKind":    {[]v1alpha1.StreamTrigger{scaling(records(), "a", second), scaling(records(), "b", second)}, `which is KafkaTrigger "a"`},
		"AnotherKind": {[]v1alpha1.StreamTrigger{scaling(orders(), "a", second)}, ""},
		"Oldest":      {[]v1alpha1.StreamTrigger{scaling(records(), "b", second.Add(-time.Second)), scaling(orders(), "c", second.Add(-time.Minute))}, `which is NATSTrigger "c"`},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := scaling(records(), "records", second).(*v1alpha1.KafkaTrigger)
			_, problem := planned(trigger, consumer.Seen{Scalers: append(test.others, trigger.DeepCopy())})
			if refused := problem.Reason == v1alpha1.ReasonScaleConflict; refused != (test.want != "") || !strings.Contains(problem.Message, test.want) {
				t.Errorf("the problem is %+v, want %q", problem, test.want)
			}
		})
	}
}
