package status_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/status"
)

// The status is derived from the answer of the build service instead of init containers.
func TestOfShared(t *testing.T) {
	const built, failed = `{"reason":"Built","message":"built in 80ms","duration":"80ms"}`, `{"reason":"CompileFailed","diagnostics":[{"file":"handler.go","line":7,"column":2,"message":"undefined: x"}]}`
	waits, gone := plan.BuildState{}, unavailable("the build service has been unavailable since noon: refused")
	lost := gone
	lost.PodsHaveBinary = true
	queued := plan.BuildState{Answer: buildclient.Answer{Waiting: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)}}
	for name, test := range map[string]struct {
		ordered  plan.BuildState
		seen     status.Seen
		ready    string
		truth    string
		message  string
		revision string
	}{
		"First":        {waits, status.Seen{}, "Building", "SourceValid Reconciling", "waiting for the build service to compile", ""},
		"FirstTrouble": {gone, status.Seen{}, "Building", "SourceValid Reconciling", "been unavailable since noon: refused", ""},
		"FirstQueued":  {queued, status.Seen{}, "Building", "SourceValid Reconciling", "waiting since 2030-01-02T03:04:05Z in the queue of the build service", ""},
		"FirstWaits": { // its launcher waits for the build service
			waits, seen(deployment(1, 0, latest), nil, runs(sharedPod(latest))),
			"Building", "SourceValid Reconciling", "waiting for the build service to compile", "",
		},
		"FirstFailsLate": { // the Deployment is not deleted yet
			reports(failed), seen(deployment(1, 0, latest), nil, runs(sharedPod(latest))),
			"CompileFailed", "SourceValid Stalled", "handler.go:7:2: undefined: x", "",
		},
		"FirstFails": {
			reports(failed),
			status.Seen{},
			"CompileFailed", "SourceValid Stalled", "handler.go:7:2: undefined: x", "",
		},
		"FirstBuilt": {
			reports(built),
			seen(deployment(1, 0, latest), nil, sharedPod(latest)),
			"RollingOut", "SourceValid Built Reconciling", "0 of 1", "",
		},
		"Serves": {
			plan.BuildState{PodsHaveBinary: true},
			seen(deployment(1, 1, latest), sets(latest), sharedPod(latest)),
			"Serving", "SourceValid Built Available Ready", "", latest,
		},
		"Update": {
			waits, seen(deployment(1, 1, old), sets(old)),
			"Building", "SourceValid Available Reconciling", "revision " + old + " continues to serve", old,
		},
		"UpdateTrouble": {
			gone, seen(deployment(1, 1, old), sets(old)),
			"Building", "SourceValid Available Reconciling", "refused; revision " + old + " continues to serve", old,
		},
		"UpdateFails": {
			reports(failed),
			seen(deployment(1, 1, old), sets(old)),
			"CompileFailed", "SourceValid Available Stalled", "undefined: x; revision " + old + " continues to serve", old,
		},
		"UpdateUnlucky": {
			reports(`{"reason":"BuildFailed","message":"no space left"}`),
			seen(deployment(1, 1, old), sets(old)),
			"BuildFailed", "SourceValid Available Reconciling", "no space left; revision " + old + " continues to serve", old,
		},
		"OtherStrategy": { // for the same source: the pods that compiled it keep running
			waits, seen(deployment(1, 1, latest), sets(latest), pod(latest, ended(0, `{"reason":"Built"}`))),
			"Building", "SourceValid Available Reconciling", "waiting", latest,
		},
		"Lost": {
			lost,
			seen(deployment(1, 0, latest), nil, without(sharedPod(latest))),
			"RollingOut", "SourceValid Built Reconciling", "0 of 1 replicas are ready with the latest version; " + gone.Trouble + "; a replica cannot start: launch: not known here", "",
		},
		"Unscheduled": {
			plan.BuildState{PodsHaveBinary: true},
			seen(deployment(1, 0, latest), nil, homeless(sharedPod(latest))),
			"RollingOut", "SourceValid Built Reconciling", "0 of 1 replicas are ready with the latest version; the pod is not scheduled: Insufficient cpu", "",
		},
		"Waits": { // its launcher waits for the build service
			lost,
			seen(deployment(1, 0, latest), nil, runs(sharedPod(latest))),
			"RollingOut", "SourceValid Built Reconciling", gone.Trouble + "; a replica is running and not serving yet", "",
		},
		"Crashes": {
			plan.BuildState{PodsHaveBinary: true},
			seen(deployment(1, 0, latest), nil, crashing(sharedPod(latest))),
			"CrashLooping", "SourceValid Built Stalled", "panic: no database", "",
		},
		"Rubbish": {reports("rubbish"), status.Seen{}, "BuildFailed", "SourceValid Reconciling", "invalid report", ""},
		"Forged":  {reports(`{"reason":"Fine"}`), status.Seen{}, "BuildFailed", "SourceValid Reconciling", "does not know: Fine", ""},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(1)
			got := status.Of(fn, ordered(test.seen, test.ordered))
			expect(t, got, test.ready, test.message, test.truth, test.revision)
			invariants(t, fn, got)
		})
	}
}

// An operator that has restarted orders the build again. Meanwhile the status does not change.
func TestFailureOutlivesTheOperator(t *testing.T) {
	fn := function(1)
	fn.Status = status.Of(fn, ordered(status.Seen{}, reports(`{"reason":"CompileFailed","message":"no"}`)))
	for _, o := range []plan.BuildState{{}, unavailable("refused")} {
		got := status.Of(fn, ordered(status.Seen{}, o))
		for _, c := range fn.Status.Conditions {
			now := meta.FindStatusCondition(got.Conditions, c.Type)
			if now == nil || now.Reason != c.Reason || now.Message != c.Message {
				t.Errorf("%s was %s: %q, now %v", c.Type, c.Reason, c.Message, now)
			}
		}
	}
	fn.Generation++ // for example more time for the build
	got := status.Of(fn, ordered(status.Seen{}, plan.BuildState{}))
	if c := meta.FindStatusCondition(got.Conditions, "Built"); c.Reason != v1beta1.ReasonBuilding {
		t.Errorf("the new build is not reported: %v", c)
	}
	got = status.Of(fn, ordered(status.Seen{}, reports(`{"reason":"Built","duration":"1s"}`)))
	if !meta.IsStatusConditionTrue(got.Conditions, "Built") || got.Build == nil || got.Build.Duration != "1s" {
		t.Errorf("the result of the new build is not reported: %+v", got)
	}
}

// reports returns the state of a build with a report.
func reports(report string) plan.BuildState {
	return plan.BuildState{Answer: buildclient.Answer{Report: []byte(report)}}
}

// unavailable returns the state of a build whose service is not available.
func unavailable(why string) plan.BuildState {
	return plan.BuildState{Answer: buildclient.Answer{Trouble: why}}
}

func sharedPod(revision string) corev1.Pod {
	var p corev1.Pod
	p.Labels = map[string]string{desired.RevisionLabel: revision, desired.TemplateLabel: revision, desired.StrategyLabel: string(v1beta1.BuildShared)}
	return p
}

// homeless makes a pod unschedulable.
func homeless(p corev1.Pod) corev1.Pod {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "Insufficient cpu"}}
	return p
}

// without sets the status of a pod whose launcher could not fetch its binary.
func without(p corev1.Pod) corev1.Pod {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: desired.FunctionContainer, State: waiting("CrashLoopBackOff", "back-off"), RestartCount: 2,
		LastTerminationState: ended(125, "launch: not known here\n"),
	}}
	return p
}

// runs sets the status of a pod whose container is running and not ready.
func runs(p corev1.Pod) corev1.Pod {
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: desired.FunctionContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	return p
}
