package status_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/status"
	"goless.io/operator/internal/validation"
)

// served returns a Function that may sleep and whose latest revision is ready.
func served(t *testing.T) *v1beta1.Function {
	t.Helper()
	fn := scaled(function(1), 0, 3)
	fn.Status = status.Of(fn, seen(rolledOut(deployment(1, 1, latest)), sets(latest), pod(latest, ended(0, `{"reason":"Built"}`))))
	if got := truth(fn.Status); got != "SourceValid Built Available Ready" {
		t.Fatalf("true conditions: %s", got)
	}
	return fn
}

// fellAsleep returns a Function that was scaled to zero after it served.
func fellAsleep(t *testing.T) *v1beta1.Function {
	t.Helper()
	fn := served(t)
	fn.Status = status.Of(fn, seen(rolledOut(deployment(0, 0, latest)), nil))
	return fn
}

// While a function falls asleep, it stays ready, also if its ReplicaSet is already scaled to 0 and the
// status of its Deployment is not updated yet.
func TestFallsAsleep(t *testing.T) {
	d := numbered(rolledOut(deployment(1, 1, latest)), "1")
	d.Generation, d.Spec.Replicas = d.Status.ObservedGeneration+1, new(int32(0))
	for _, available := range []int32{0, 1} {
		got := status.Of(served(t), seen(d, []appsv1.ReplicaSet{rollout(latest, "1", available)}, pod(latest, ended(0, `{"reason":"Built"}`))))
		if truth := truth(got); truth != "SourceValid Built Available Ready" {
			t.Errorf("with %d available pods: %s", available, truth)
		}
	}
}

// TestSleep checks the status of a function that may sleep in each of its states.
func TestSleep(t *testing.T) {
	const whole = "SourceValid Built Available Ready"
	changed := func(fn *v1beta1.Function) *v1beta1.Function {
		fn.Spec.Function = "package newer\n"
		return fn
	}
	stopped := func(fn *v1beta1.Function) *v1beta1.Function {
		fn.Spec.Replicas = new(int32(0))
		return fn
	}
	never := func(fn *v1beta1.Function) *v1beta1.Function { return scaled(fn, 1, 3) }
	seenOnly := scaled(function(1), 0, 3) // with an empty status
	unready := func(change func(*corev1.Pod)) corev1.Pod {
		p := pod(latest, ended(0, `{"reason":"Built"}`))
		change(&p)
		return p
	}
	unscheduled := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node has room"}}
	}
	files := func(fn *v1beta1.Function) *v1beta1.Function {
		fn.Spec.Files = []v1beta1.File{{Name: "a", ConfigMap: &v1beta1.FileSource{Name: "config"}}}
		return fn
	}
	fileless := func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}}
	}
	evicted := func(p *corev1.Pod) { unscheduled(p); p.Status.Phase = corev1.PodFailed }
	ends := func(p *corev1.Pod) { unscheduled(p); p.DeletionTimestamp = new(metav1.Now()) }
	waking := func(pods ...corev1.Pod) status.Seen {
		return seen(rolledOut(deployment(1, 0, latest)), sets(), pods...)
	}
	unseen := stale(rolledOut(deployment(0, 0, latest))) // the Deployment controller has not observed the change
	unseen.Spec.Replicas = new(int32(1))
	for name, test := range map[string]struct {
		fn         *v1beta1.Function
		seen       status.Seen
		ready, is  string // reasons of Ready and Available
		truth, why string // conditions that are true, and part of the message of Ready or Reconciling
		revision   string // readyRevision
	}{
		"Awake":            {served(t), seen(rolledOut(deployment(3, 3, latest)), sets(latest)), "Serving", "Serving", whole, "", latest},
		"FallsAsleep":      {served(t), seen(rolledOut(deployment(0, 0, latest)), nil), "Asleep", "Asleep", whole, "a request wakes it", latest},
		"Asleep":           {fellAsleep(t), seen(rolledOut(deployment(0, 0, latest)), nil), "Asleep", "Asleep", whole, "a request wakes it", latest},
		"PodsGo":           {served(t), seen(withReplicas(rolledOut(deployment(1, 0, latest)), 0), nil), "Asleep", "Asleep", whole, "a request wakes it", latest},
		"ServesLast":       {served(t), seen(withReplicas(rolledOut(deployment(1, 1, latest)), 0), sets(latest)), "Serving", "Serving", whole, "", latest},
		"Wakes":            {fellAsleep(t), waking(), "Asleep", "Asleep", whole, "a request wakes it", latest},
		"WakesUnseen":      {fellAsleep(t), seen(numbered(unseen, "4"), []appsv1.ReplicaSet{rollout(latest, "4", 0)}), "Asleep", "Asleep", whole, "a request wakes it", latest},
		"Compiles":         {fellAsleep(t), waking(pod(latest, running())), "Asleep", "Asleep", whole, "a request wakes it", latest},
		"OldPodsGo":        {fellAsleep(t), waking(unready(ends), unready(evicted)), "Asleep", "Asleep", whole, "a request wakes it", latest},
		"WakesTooSlowly":   {fellAsleep(t), waking(since(pod(latest, ended(0, `{"reason":"Built"}`)), noon.Add(-status.SlowStart))), "Asleep", "Asleep", whole + " Reconciling", "and is not serving", latest},
		"WakesNoFiles":     {files(fellAsleep(t)), waking(unready(fileless)), "Asleep", "Asleep", whole + " Reconciling", "a replica waits for files", latest},
		"NoRoom":           {fellAsleep(t), waking(unready(unscheduled)), "RollingOut", "NoReadyReplica", "SourceValid Built Reconciling", "0 of 1 replicas", ""},
		"CannotPull":       {fellAsleep(t), waking(configless(pod(latest, ended(0, `{"reason":"Built"}`)))), "RollingOut", "NoReadyReplica", "SourceValid Built Reconciling", "0 of 1 replicas", ""},
		"Crashes":          {fellAsleep(t), waking(crashing(pod(latest, ended(0, `{"reason":"Built"}`)))), "CrashLooping", "NoReadyReplica", "SourceValid Built Stalled", "no database", ""},
		"OtherFails":       {fellAsleep(t), waking(beside(pod(latest, ended(0, `{"reason":"Built"}`)), failing("agent"))), "RollingOut", "Serving", "SourceValid Built Available Reconciling", `container "agent"`, latest},
		"OtherFailsFirst":  {seenOnly, waking(beside(pod(latest, ended(0, `{"reason":"Built"}`)), failing("agent"))), "RollingOut", "Serving", "SourceValid Built Available Reconciling", `container "agent"`, latest},
		"OtherFailsNoWay":  {fellAsleep(t), conflict(waking(beside(pod(latest, ended(0, `{"reason":"Built"}`)), failing("agent")))), "ServiceConflict", "NoReadyReplica", "SourceValid Built Stalled", "not ours", ""},
		"OtherFailsAwake":  {never(served(t)), waking(beside(pod(latest, ended(0, `{"reason":"Built"}`)), failing("agent"))), "RollingOut", "NoReadyReplica", "SourceValid Built Reconciling", `container "agent"`, ""},
		"OtherFailsNobody": {fellAsleep(t), activator(waking(beside(pod(latest, ended(0, `{"reason":"Built"}`)), failing("agent"))), observe.Activator{Routed: true}), "RollingOut", "NoReadyReplica", "SourceValid Built Reconciling", `container "agent"`, ""},
		"OtherFailsToWake": {fellAsleep(t), failedWake(waking(beside(pod(latest, ended(0, `{"reason":"Built"}`)), failing("agent")))), "RollingOut", "Serving", "SourceValid Built Available Reconciling", `container "agent"`, latest},
		"OtherIsReady":     {seenOnly, waking(isReady(beside(pod(latest, ended(0, `{"reason":"Built"}`)), failing("agent")))), "RollingOut", "NoReadyReplica", "SourceValid Built Reconciling", "0 of 1 replicas", ""},
		"UnreadyAwake":     {served(t), waking(unready(func(*corev1.Pod) {})), "RollingOut", "NoReadyReplica", "SourceValid Built Reconciling", "0 of 1 replicas", ""},
		"NeverServed":      {seenOnly, seen(rolledOut(deployment(0, 0, latest)), nil), "Building", "NoReadyReplica", "SourceValid Reconciling", "waiting for a pod", ""},
		"UnseenRevision":   {of(fellAsleep(t), old), seen(rolledOut(deployment(0, 0, latest)), nil), "Building", "NoReadyReplica", "SourceValid Built Reconciling", "waiting for a pod", ""},
		"Changed":          {changed(fellAsleep(t)), seen(rolledOut(deployment(0, 0, latest)), nil), "Building", "Asleep", "SourceValid Available Reconciling", "revision " + latest + " continues to serve", latest},
		"ChangedAndWakes":  {changed(fellAsleep(t)), waking(), "Building", "Asleep", "SourceValid Available Reconciling", "revision " + latest + " continues to serve", latest},
		"OtherTemplate":    {fellAsleep(t), templateOf(seen(rolledOut(deployment(0, 0, latest)), nil), "other"), "Building", "Asleep", "SourceValid Built Available Reconciling", "", latest},
		"Refused":          {fellAsleep(t), refused(seen(rolledOut(deployment(0, 0, latest)), nil)), "InvalidSource", "Asleep", "Available Stalled", "handler.go:1:1: bad", latest},
		"NoService":        {fellAsleep(t), conflict(seen(rolledOut(deployment(0, 0, latest)), nil)), "ServiceConflict", "NoReadyReplica", "SourceValid Built Stalled", "not ours", ""},
		"Stopped":          {stopped(fellAsleep(t)), seen(rolledOut(deployment(0, 0, latest)), nil), "Stopped", "Stopped", "SourceValid Built Ready", "spec.replicas is 0", ""},
		"NoLongerSleeps":   {never(fellAsleep(t)), seen(rolledOut(deployment(0, 0, latest)), nil), "Building", "NoReadyReplica", "SourceValid Built Reconciling", "waiting for a pod", ""},
		"NoReplica":        {fellAsleep(t), activator(seen(rolledOut(deployment(0, 0, latest)), nil), observe.Activator{Routed: true}), "NoActivator", "NoActivator", "SourceValid Built Reconciling", "no replica of the activator is ready", latest},
		"NoAddress":        {fellAsleep(t), activator(seen(rolledOut(deployment(0, 0, latest)), nil), observe.Activator{Ready: true}), "NoActivator", "NoActivator", "SourceValid Built Reconciling", "no EndpointSlice routes its requests", latest},
		"NoReplicaWakes":   {fellAsleep(t), activator(waking(), observe.Activator{Routed: true}), "NoActivator", "NoActivator", "SourceValid Built Reconciling", "no replica of the activator is ready", latest},
		"NoReplicaAwake":   {served(t), activator(seen(rolledOut(deployment(1, 1, latest)), sets(latest)), observe.Activator{}), "Serving", "Serving", whole, "", latest},
		"ChangedNoReplica": {changed(fellAsleep(t)), activator(seen(rolledOut(deployment(0, 0, latest)), nil), observe.Activator{}), "Building", "NoActivator", "SourceValid Reconciling", "", latest},
		"ReplicaReturns":   {abandoned(t), seen(rolledOut(deployment(0, 0, latest)), nil), "Asleep", "Asleep", whole, "a request wakes it", latest},
		"ReplicaReturned":  {abandoned(t), waking(), "Asleep", "Asleep", whole, "a request wakes it", latest},
		"NoQuota":          {fellAsleep(t), outOfQuota(waking()), "RollingOut", "NoReadyReplica", "SourceValid Built Reconciling", "exceeded quota", ""},
		"WakeFailed":       {fellAsleep(t), failedWake(waking(pod(latest, ended(0, `{"reason":"Built"}`)))), "WakeFailed", "WakeFailed", "SourceValid Built Reconciling", "failed to wake the function: no pod within 1m0s", ""},
		"WakeFailedFiles":  {files(fellAsleep(t)), failedWake(waking(unready(fileless))), "WakeFailed", "WakeFailed", "SourceValid Built Reconciling", `no pod within 1m0s; a replica waits for files from ConfigMap "config"`, ""},
		"WakeFailedCrash":  {fellAsleep(t), failedWake(waking(crashing(pod(latest, ended(0, `{"reason":"Built"}`))))), "CrashLooping", "WakeFailed", "SourceValid Built Stalled", "no database", ""},
		"WakeFailedAtZero": {fellAsleep(t), failedWake(seen(rolledOut(deployment(0, 0, latest)), nil)), "WakeFailed", "WakeFailed", "SourceValid Built Reconciling", "no pod within 1m0s", ""},
		"WakeFailedNoPod":  {fellAsleep(t), failedWake(seen(rolledOut(deployment(1, 0, latest)), nil)), "WakeFailed", "WakeFailed", "SourceValid Built Reconciling", "no pod within 1m0s", ""},
		"WakeFailedNewer":  {changed(fellAsleep(t)), failedWake(waking()), "Building", "WakeFailed", "SourceValid Reconciling", "", ""},
		"WakeFailedServes": {served(t), failedWake(seen(rolledOut(deployment(1, 1, latest)), sets(latest))), "Serving", "Serving", whole, "", latest},
		"WokenByALauncher": {fellAsleep(t), ordered(waking(), plan.BuildState{PodsHaveBinary: true}), "Asleep", "Asleep", whole, "a request wakes it", latest},
	} {
		t.Run(name, func(t *testing.T) {
			test.seen.Snapshot.Time = noon
			got := status.Of(test.fn, test.seen)
			ready, available := meta.FindStatusCondition(got.Conditions, "Ready"), meta.FindStatusCondition(got.Conditions, "Available")
			is := [4]string{ready.Reason, available.Reason, truth(got), got.ReadyRevision}
			if want := [4]string{test.ready, test.is, test.truth, test.revision}; is != want {
				t.Errorf("reasons of Ready and Available, true conditions, readyRevision: %q, want %q", is, want)
			}
			message := ready.Message
			if c := meta.FindStatusCondition(got.Conditions, "Reconciling"); c != nil {
				message = c.Message
			}
			if !strings.Contains(message, test.why) {
				t.Errorf("message %q, want %q in it", message, test.why)
			}
			invariants(t, test.fn, got)
		})
	}
}

// activator sets the state of the activator.
func activator(s status.Seen, a observe.Activator) status.Seen {
	s.Snapshot.Activator = a
	return s
}

// failedWake sets the state after a request has failed to wake the function.
func failedWake(s status.Seen) status.Seen {
	s.Snapshot.Activator.WakeFailed = "no pod\nwithin 1m0s"
	return s
}

// abandoned returns a sleeping Function that is no longer routed to an activator.
func abandoned(t *testing.T) *v1beta1.Function {
	t.Helper()
	fn := fellAsleep(t)
	fn.Status = status.Of(fn, activator(seen(rolledOut(deployment(0, 0, latest)), nil), observe.Activator{}))
	return fn
}

// outOfQuota adds a ReplicaSet of the latest template that cannot create pods.
func outOfQuota(s status.Seen) status.Seen {
	rs := set(latest, 0)
	rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: "exceeded quota"}}
	s.Snapshot.ReplicaSets = []appsv1.ReplicaSet{rs}
	s.Plan.Build = &plan.BuildState{PodsHaveBinary: true}
	return s
}

// After a failed wake-up, the function recovers when a pod becomes ready, and may sleep again.
func TestRecoversFromFailedWake(t *testing.T) {
	fn := fellAsleep(t)
	fn.Status = status.Of(fn, failedWake(seen(rolledOut(deployment(1, 0, latest)), nil, pod(latest, ended(0, `{"reason":"Built"}`)))))
	if meta.IsStatusConditionTrue(fn.Status.Conditions, "Ready") {
		t.Fatal("Ready after a failed wake")
	}
	for _, step := range []struct {
		seen   status.Seen
		reason string
	}{
		{seen(rolledOut(deployment(1, 1, latest)), sets(latest), pod(latest, ended(0, `{"reason":"Built"}`))), "Serving"},
		{seen(rolledOut(deployment(0, 0, latest)), nil), "Asleep"},
	} {
		fn.Status = status.Of(fn, step.seen)
		if ready := meta.FindStatusCondition(fn.Status.Conditions, "Ready"); ready.Status != "True" || ready.Reason != step.reason {
			t.Errorf("Ready is %s for %s: %s, want True for %s", ready.Status, ready.Reason, ready.Message, step.reason)
		}
	}
}

// A function that cannot be scaled by its requests in flight serves normally, and its status
// reports the reason.
func TestCannotScale(t *testing.T) {
	onRequests := func(fn *v1beta1.Function) *v1beta1.Function {
		fn = scaled(fn, 1, 3)
		fn.Spec.Scaling.Requests = new(int32(10))
		return fn
	}
	maySleep := onRequests(served(t))
	maySleep.Spec.Scaling.Min = new(int32(0))
	awake := seen(rolledOut(deployment(1, 1, latest)), sets(latest))
	const reason = "no response in time"
	left := activator(awake, observe.Activator{Ready: true, CannotScale: reason})
	left.Plan.AutoscalerConflict = &validation.Problem{Reason: "AutoscalerConflict"}
	for name, test := range map[string]struct {
		fn   *v1beta1.Function
		seen status.Seen
		want string // part of the message; empty if the function is not Degraded
	}{
		"Scales":      {onRequests(served(t)), activator(awake, observe.Activator{Ready: true}), ""},
		"Unknown":     {onRequests(served(t)), activator(awake, observe.Activator{Ready: true, CannotScale: reason}), reason},
		"NoActivator": {onRequests(served(t)), activator(awake, observe.Activator{}), "no replica of the activator is ready"},
		"OnCPU":       {scaled(served(t), 1, 3), activator(awake, observe.Activator{CannotScale: reason}), ""},
		"ByOthers":    {onRequests(served(t)), left, ""},
		"NorSleep":    {maySleep, activator(awake, observe.Activator{Ready: true, StaysAwake: reason, CannotScale: reason}), reason},
	} {
		got := status.Of(test.fn, test.seen)
		c := meta.FindStatusCondition(got.Conditions, "Degraded")
		if test.want == "" && c != nil && c.Reason == "CannotScale" || test.want != "" && (c == nil || c.Reason != "CannotScale" || !strings.Contains(c.Message, test.want)) {
			t.Errorf("%s: Degraded is %+v", name, c)
		}
		if ready := meta.FindStatusCondition(got.Conditions, "Ready"); ready.Status != "True" {
			t.Errorf("%s: Ready is %+v", name, ready)
		}
	}
}

// A function that cannot be scaled to zero serves normally, and its status reports the reason.
func TestCannotSleep(t *testing.T) {
	s := activator(seen(rolledOut(deployment(1, 1, latest)), sets(latest)), observe.Activator{Ready: true, Routed: true, StaysAwake: "no response in time"})
	for fn, want := range map[*v1beta1.Function]string{
		served(t):                 "SourceValid Built Available Ready Degraded",
		scaled(served(t), 1, 3):   "SourceValid Built Available Ready",
		scaled(function(1), 1, 1): "SourceValid Built Available Ready",
	} {
		got := status.Of(fn, s)
		if truth := truth(got); truth != want {
			t.Errorf("true conditions: %q, want %q", truth, want)
		}
		if c := meta.FindStatusCondition(got.Conditions, "Degraded"); c != nil && (c.Reason != "CannotSleep" || !strings.Contains(c.Message, "no response in time")) {
			t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
		}
	}
	s.Outcome.Degraded = lacking(status.Seen{}).Outcome.Degraded
	if c := meta.FindStatusCondition(status.Of(served(t), s).Conditions, "Degraded"); c.Reason != "DisruptionBudgetFailed" || !strings.HasSuffix(c.Message, "no response in time") {
		t.Errorf("Degraded is %s: %s", c.Reason, c.Message)
	}
}

// isReady sets the condition of a ready pod, which the Deployment may not count yet.
func isReady(p corev1.Pod) corev1.Pod {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	return p
}

// of sets the revision that was last ready.
func of(fn *v1beta1.Function, revision string) *v1beta1.Function {
	fn.Status.ReadyRevision = revision
	return fn
}

// withReplicas sets the number of replicas in the spec of a Deployment, and keeps its status.
func withReplicas(d *appsv1.Deployment, n int32) *appsv1.Deployment {
	d.Spec.Replicas = &n
	return d
}

func ordered(s status.Seen, o plan.BuildState) status.Seen {
	s.Plan.Build = &o
	return s
}
