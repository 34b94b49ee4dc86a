package status_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/status"
)

// state is a combination of all values that a status depends on.
type state struct {
	before v1beta1.FunctionStatus
	fn     *v1beta1.Function
	seen   status.Seen
}

// In all combinations of states, and after each previous status, the status fulfills its invariants
// and is stable if nothing changes.
func TestCombinations(t *testing.T) {
	n := 0
	everyState(t, func(s state) {
		n++
		fn := s.fn.DeepCopy()
		fn.Status = s.before
		first := status.Of(fn, s.seen)
		invariants(t, fn, first)
		neverTooEarly(t, fn, s.seen, first)
		fn.Status = *first.DeepCopy()
		if second := status.Of(fn, s.seen); !equality.Semantic.DeepEqual(first, second) {
			t.Errorf("the status is not stable:\n%+v\n%+v", first, second)
		}
		if t.Failed() {
			t.Fatalf("spec %+v, seen %+v, previous status %+v", s.fn.Spec, s.seen, s.before)
		}
	})
	t.Logf("%d combinations", n)
}

// neverTooEarly checks that Ready is True only if the function serves as specified.
func neverTooEarly(t *testing.T, fn *v1beta1.Function, seen status.Seen, got v1beta1.FunctionStatus) {
	t.Helper()
	if !meta.IsStatusConditionTrue(got.Conditions, "Ready") {
		return
	}
	d := seen.Outcome.Deployment
	if d == nil || d.DeletionTimestamp != nil || d.Status.ObservedGeneration < d.Generation || d.Status.UpdatedReplicas != d.Status.Replicas {
		t.Fatal("Ready before the Deployment is updated")
	}
	want, fixed := fn.FixedReplicas()
	if !fixed {
		want = *d.Spec.Replicas
	}
	if s := d.Status; len(s.Conditions) == 0 && (s.Replicas != want || s.AvailableReplicas != want) {
		t.Error("Ready before the rollout is complete")
	}
	if !fn.Stopped() && d.Status.AvailableReplicas == 0 && !sleeps(fn, d, seen) {
		t.Error("Ready although no replica serves")
	}
	if seen.Problem() != nil || seen.Outcome.Err != nil || len(seen.Plan.Diagnostics) > 0 || seen.Outcome.Service == nil {
		t.Error("Ready despite a problem")
	}
	if o := seen.Plan.Build; o != nil && !o.PodsHaveBinary && len(o.Report) == 0 {
		t.Error("Ready before the build service has reported the result")
	}
}

// sleeps reports whether a function has no replicas, or none that is ready yet, because it receives
// no requests.
func sleeps(fn *v1beta1.Function, d *appsv1.Deployment, seen status.Seen) bool {
	before := meta.FindStatusCondition(fn.Status.Conditions, "Available")
	return seen.Snapshot.Activator.Ready && seen.Snapshot.Activator.Routed && seen.Snapshot.Activator.WakeFailed == "" && fn.MaySleep() && before != nil && (before.Status == "True" || before.Reason == "NoActivator") && (*d.Spec.Replicas == 0 || before.Reason == "Asleep" || before.Reason == "NoActivator")
}

// everyState enumerates the states as numbers with one digit for each part, in steps of 11. As 11
// divides none of the numbers of values, all combinations of any four parts occur, in seconds
// instead of a minute.
func everyState(t *testing.T, try func(state)) {
	const step = 11
	statuses, deployments, pods, orders := everyStatus(), everyDeployment(), everyPods(), everyOrder()
	functions := []*v1beta1.Function{function(0), function(1), function(2), scaled(function(1), 0, 3)}
	ready := [][]appsv1.ReplicaSet{nil, sets(old), sets(latest), sets(old, latest)}
	total := len(statuses) * len(deployments) * len(pods) * len(orders) * len(functions) * len(ready) * len(everyTrouble)
	if total%step == 0 {
		t.Fatalf("%d states in steps of %d omit some combinations", total, step)
	}
	for n := 0; n < total; n += step {
		rest := n
		hand := func(size int) int {
			at := rest % size
			rest /= size
			return at
		}
		before, d := statuses[hand(len(statuses))], deployments[hand(len(deployments))]
		s := seen(d.DeepCopy(), ready[hand(len(ready))], pods[hand(len(pods))]...)
		s.Plan.Build = orders[hand(len(orders))]
		try(state{*before.DeepCopy(), functions[hand(len(functions))], everyTrouble[hand(len(everyTrouble))](s)})
	}
}

func everyStatus() []v1beta1.FunctionStatus {
	all := []v1beta1.FunctionStatus{{}}
	fn := function(1)
	for _, report := range []string{`{"reason":"Built","duration":"1s"}`, `{"reason":"CompileFailed","diagnostics":[{"file":"a","message":"b"}]}`, `{"reason":"BuildFailed"}`, ""} {
		all = append(all, status.Of(fn, ordered(status.Seen{}, reports(report))))
	}
	all = append(all, status.Of(fn, refused(status.Seen{})))
	for _, revision := range []string{old, latest} { // both have served, and the second has been scaled to zero
		fn := scaled(function(1), 0, 1)
		if revision == old {
			fn.Spec.Function = before
		}
		fn.Status = status.Of(fn, seen(deployment(1, 1, revision), sets(revision), pod(revision, ended(0, `{"reason":"Built"}`))))
		all = append(all, fn.Status)
		if revision == latest {
			all = append(all, status.Of(fn, seen(deployment(0, 0, revision), nil)),
				status.Of(fn, activator(seen(deployment(0, 0, revision), nil), observe.Activator{})))
		}
	}
	return all
}

func everyDeployment() []*appsv1.Deployment {
	failing := deployment(2, 1, latest)
	failing.Status.UpdatedReplicas = 1
	return []*appsv1.Deployment{
		nil, deployment(0, 0, latest), rolledOut(deployment(0, 0, latest)), rolledOut(deployment(0, 0, old)), deployment(1, 0, latest), deployment(1, 1, latest), deployment(2, 2, latest),
		rolledOut(deployment(2, 1, latest)), rolledOut(deployment(2, 0, latest)), stale(rolledOut(deployment(1, 1, latest))),
		deployment(1, 1, old), stale(deployment(1, 1, latest)), overdue(deployment(1, 0, latest)), failing,
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
		{beside(built, failing("agent"))},
		{without(sharedPod(latest))},
		{pod(old, ended(0, `{"reason":"Built"}`)), built},
	}
}

func everyOrder() []*plan.BuildState {
	gone, failed := buildclient.Answer{Trouble: "refused"}, buildclient.Answer{Report: []byte(`{"reason":"BuildFailed","message":"no space"}`)}
	return []*plan.BuildState{
		nil,
		{},
		{Answer: gone},
		{PodsHaveBinary: true},
		{Answer: gone, PodsHaveBinary: true},
		{Answer: buildclient.Answer{Report: []byte(`{"reason":"Built","duration":"3s"}`)}},
		{Answer: buildclient.Answer{Report: []byte(`{"reason":"BuildTimeout"}`)}},
		{Answer: failed, PodsHaveBinary: true},
	}
}

var everyTrouble = []func(status.Seen) status.Seen{
	func(s status.Seen) status.Seen { return s },
	refused,
	conflict,
	failure,
	lacking,
	failedWake,
	func(s status.Seen) status.Seen { return activator(s, observe.Activator{Ready: true}) },
	func(s status.Seen) status.Seen { return templateOf(s, "other") },
	func(s status.Seen) status.Seen {
		s.Outcome.Service = nil
		return s
	},
}
