package function

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/status"
	"goless.io/operator/internal/validation"
)

// A status that will soon be replaced is written later, and at once if it has differed for a while.
func TestStatusPause(t *testing.T) {
	counted, err := metrics.New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	server := &statusServer{}
	r := &Reconciler{Client: server, Events: events.NewFakeRecorder(10), Metrics: counted}
	fn := &v1beta1.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "f", UID: "uid", Generation: 1}}
	fn.Spec.Function, fn.Status.ObservedGeneration = "package p\n", -1
	report := func(seen status.Seen, writes int, pauses bool) {
		t.Helper()
		pause, err := r.report(t.Context(), fn.DeepCopy(), seen)
		if err != nil || server.status.writes != writes || (pause > 0) != pauses || pause > statusPause {
			t.Errorf("wrote %d times and waits %s, %v; want %d, wait: %t", server.status.writes, pause, err, writes, pauses)
		}
	}
	starting := status.Seen{Snapshot: observe.Snapshot{}, Plan: plan.Plan{}}
	report(starting, 0, true)
	report(starting, 0, true)
	last := r.history.of(fn, starting)
	last.changed = last.changed.Add(-statusPause)
	report(starting, 1, false)
	report(starting, 1, true) // the pause begins with the next change

	failed := starting
	failed.Outcome.Err = errors.New("quota exceeded")
	report(failed, 2, false) // the next reconcile may be much later

	stalled := starting
	stalled.Outcome = apply.Outcome{Problem: &validation.Problem{Reason: v1beta1.ReasonServiceConflict, Message: "taken"}}
	report(stalled, 3, false)
}

// statusServer is an API server that counts writes of the status.
type statusServer struct {
	client.Client
	status statusWriter
}

func (s *statusServer) Status() client.SubResourceWriter { return &s.status }

type statusWriter struct {
	client.SubResourceWriter
	writes int
}

func (s *statusWriter) Patch(context.Context, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
	s.writes++
	return nil
}

func TestIsTemporary(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: "R", Message: "1 of 2 replicas"}
	}
	starting := v1beta1.FunctionStatus{
		ObservedGeneration: 1, Replicas: 2, ReplicaSummary: "0/2", Conditions: []metav1.Condition{condition("Ready", "False")},
		Revisions: []v1beta1.RevisionStatus{{Name: "f-1", State: v1beta1.RevisionStarting}},
	}
	for name, test := range map[string]struct {
		isNew  bool
		change func(*v1beta1.FunctionStatus)
		want   bool
	}{
		"New":        {true, func(*v1beta1.FunctionStatus) {}, true},
		"NewReady":   {true, func(s *v1beta1.FunctionStatus) { s.Conditions[0].Status = metav1.ConditionTrue }, false},
		"NewStalled": {true, func(s *v1beta1.FunctionStatus) { s.Conditions = append(s.Conditions, condition("Stalled", "True")) }, false},
		"Counts": {false, func(s *v1beta1.FunctionStatus) {
			s.ReadyReplicas, s.ReplicaSummary, s.Conditions[0].Message = 1, "1/2", "2 of 2 replicas"
		}, true},
		"State":      {false, func(s *v1beta1.FunctionStatus) { s.Revisions[0].State = v1beta1.RevisionServing }, true},
		"NoRevision": {false, func(s *v1beta1.FunctionStatus) { s.Revisions = nil }, false},
		"Ready":      {false, func(s *v1beta1.FunctionStatus) { s.Conditions[0].Status = metav1.ConditionTrue }, false},
		"Reason":     {false, func(s *v1beta1.FunctionStatus) { s.Conditions[0].Reason = "Other" }, false},
		"Generation": {false, func(s *v1beta1.FunctionStatus) { s.ObservedGeneration = 2 }, false},
		"Revision":   {false, func(s *v1beta1.FunctionStatus) { s.ReadyRevision = "abc" }, false},
	} {
		before, next := *starting.DeepCopy(), *starting.DeepCopy()
		if test.isNew {
			before = v1beta1.FunctionStatus{ObservedGeneration: -1}
		}
		test.change(&next)
		if got := isTemporary(before, next); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
