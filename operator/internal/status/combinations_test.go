package status_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/status"
)

// state is one of everything that a status depends on.
type state struct {
	before   v1beta1.FunctionStatus
	replicas int32
	seen     status.Seen
}

// Whatever there is to be seen, in whatever combination and after whatever status, the
// status keeps its promises, and a second look at the same tells the same.
func TestEveryCombination(t *testing.T) {
	n := 0
	everyState(func(s state) {
		n++
		fn := function(s.replicas)
		fn.Status = s.before
		first := status.Of(fn, s.seen)
		invariants(t, fn, first)
		neverTooEarly(t, fn, s.seen, first)
		fn.Status = *first.DeepCopy()
		if second := status.Of(fn, s.seen); !equality.Semantic.DeepEqual(first, second) {
			t.Errorf("a second look differs:\n%+v\n%+v", first, second)
		}
		if t.Failed() {
			t.Fatalf("for %d replicas, %+v, after %+v", s.replicas, s.seen, s.before)
		}
	})
	t.Logf("%d combinations", n)
}

// neverTooEarly holds Ready against what was seen.
func neverTooEarly(t *testing.T, fn *v1beta1.Function, seen status.Seen, got v1beta1.FunctionStatus) {
	t.Helper()
	if !meta.IsStatusConditionTrue(got.Conditions, "Ready") {
		return
	}
	d := seen.Deployment
	if d == nil || d.DeletionTimestamp != nil || d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != *fn.Spec.Replicas {
		t.Error("Ready before the Deployment is what it should be")
	}
	if seen.Problem != nil || seen.Failure != "" || len(seen.Diagnostics) > 0 || seen.Service == nil {
		t.Error("Ready, and something is wrong")
	}
	if o := seen.Ordered; o != nil && !o.Running && len(o.Report) == 0 {
		t.Error("Ready before the build service has said how it went")
	}
}

// everyState counts through all states, as a clock with one hand for each part.
func everyState(try func(state)) {
	statuses, deployments, pods, orders := everyStatus(), everyDeployment(), everyPods(), everyOrder()
	replicas, ready := []int32{0, 1, 2}, [][]appsv1.ReplicaSet{nil, sets(old), sets(latest), sets(old, latest)}
	total := len(statuses) * len(deployments) * len(pods) * len(orders) * len(replicas) * len(ready) * len(everyTrouble)
	for n := range total {
		hand := func(size int) int {
			at := n % size
			n /= size
			return at
		}
		before, d := statuses[hand(len(statuses))], deployments[hand(len(deployments))]
		s := seen(d.DeepCopy(), ready[hand(len(ready))], pods[hand(len(pods))]...)
		s.Ordered = orders[hand(len(orders))]
		try(state{*before.DeepCopy(), replicas[hand(len(replicas))], everyTrouble[hand(len(everyTrouble))](s)})
	}
}

func everyStatus() []v1beta1.FunctionStatus {
	all := []v1beta1.FunctionStatus{{}}
	fn := function(1)
	for _, report := range []string{`{"reason":"Built","duration":"1s"}`, `{"reason":"CompileFailed","diagnostics":[{"file":"a","message":"b"}]}`, `{"reason":"BuildFailed"}`, ""} {
		all = append(all, status.Of(fn, status.Seen{Ordered: &status.Ordered{Report: []byte(report)}}))
	}
	all = append(all, status.Of(fn, refused(status.Seen{})))
	fn.Spec.Function = before
	return append(all, status.Of(fn, seen(deployment(1, 1, old), sets(old), pod(old, ended(0, `{"reason":"Built"}`)))))
}

func everyDeployment() []*appsv1.Deployment {
	failing := deployment(2, 1, latest)
	failing.Status.UpdatedReplicas = 1
	return []*appsv1.Deployment{
		nil, deployment(0, 0, latest), deployment(1, 0, latest), deployment(1, 1, latest), deployment(2, 2, latest),
		deployment(1, 1, old), stale(deployment(1, 1, latest)), quota(deployment(0, 0, latest)), failing,
	}
}

func everyPods() [][]corev1.Pod {
	built := pod(latest, ended(0, `{"reason":"Built","duration":"2s"}`))
	return [][]corev1.Pod{
		nil,
		{pod(latest, running())},
		{built},
		{pod(latest, ended(10, `{"reason":"CompileFailed","message":"no"}`))},
		{crashing(built)},
		{without(sharedPod(latest))},
		{pod(old, ended(0, `{"reason":"Built"}`)), built},
	}
}

func everyOrder() []*status.Ordered {
	return []*status.Ordered{
		nil,
		{},
		{Trouble: "refused"},
		{Running: true},
		{Running: true, Trouble: "refused"},
		{Report: []byte(`{"reason":"Built","duration":"3s"}`)},
		{Report: []byte(`{"reason":"BuildTimeout"}`)},
		{Running: true, Report: []byte(`{"reason":"BuildFailed","message":"no space"}`)},
	}
}

var everyTrouble = []func(status.Seen) status.Seen{
	func(s status.Seen) status.Seen { return s },
	refused,
	conflict,
	failure,
	func(s status.Seen) status.Seen { return templateOf(s, "other") },
	func(s status.Seen) status.Seen {
		s.Service = nil
		return s
	},
}
