package status_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/plan"
	"goless.io/operator/internal/status"
)

const (
	overQuota = `pods "f-5c7b-x8kzl" is forbidden: exceeded quota: team, requested: limits.memory=768Mi, used: limits.memory=2Gi, limited: limits.memory=2Gi`
	overLimit = `pods "f-5c7b-v2qqm" is forbidden: maximum cpu usage per Container is 1, but limit is 2`
	overCount = `pods "f-5c7b-cqq2n" is forbidden: exceeded quota: team, requested: pods=1, used: pods=4, limited: pods=4`
)

// noon is the current time in these tests.
var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func TestPodProblem(t *testing.T) {
	for name, test := range map[string]struct {
		seen   status.Seen
		event  string // reason of the event; empty for none
		ready  string // reason of Ready
		says   string // part of the message of Ready
		silent string // text that the message must not contain
		truth  string
	}{
		"Quota": {
			seen:  seen(budgeted(deployment(1, 0, latest)), forbids(overQuota)),
			event: "PodsRefused", ready: "Building", truth: "SourceValid Reconciling",
			says: "pods cannot be created: exceeded quota: team, requested: limits.memory=768Mi, used: limits.memory=2Gi, limited: limits.memory=2Gi" +
				"; memory: container build requests 128Mi, limit 768Mi (spec.build.resources), container function requests 32Mi, limit 256Mi (spec.resources)",
			silent: "x8kzl",
		},
		"LimitRange": {
			seen:  seen(budgeted(deployment(1, 0, latest)), forbids(overLimit)),
			event: "PodsRefused", ready: "Building", truth: "SourceValid Reconciling",
			says: "but limit is 2; cpu: container build requests none, limit 2 (spec.build.resources), container function requests none, limit none (spec.resources)",
		},
		"CountQuota": {
			seen:  seen(budgeted(deployment(1, 0, latest)), forbids(overCount)),
			event: "PodsRefused", ready: "Building", truth: "SourceValid Reconciling", says: "limited: pods=4", silent: "container",
		},
		"MendedQuota": { // the ReplicaSet of the previous template still reports that it cannot create pods
			seen:  seen(failingBefore(deployment(1, 0, latest)), []appsv1.ReplicaSet{numberedSet(refusing(overQuota), "1"), numberedSet(set(latest, 0), "2")}, pod(latest, running())),
			ready: "Building", truth: "SourceValid Reconciling", says: "compiling", silent: "quota",
		},
		"NoReplicaSet": {
			seen:  seen(setless(deployment(1, 0, latest)), nil),
			event: "PodsRefused", ready: "Building", truth: "SourceValid Reconciling", says: "the ReplicaSet cannot be created: exceeded quota",
		},
		"Unschedulable": {
			seen:  seen(deployment(1, 0, latest), nil, homeless(pod(latest, corev1.ContainerState{}))),
			event: "NotScheduled", ready: "Building", truth: "SourceValid Reconciling", says: "the pod is not scheduled: Insufficient cpu",
		},
		"NoImage": {
			seen:  seen(deployment(1, 0, latest), nil, pod(latest, waiting("ImagePullBackOff", `Back-off pulling image "b": ErrImagePull: no such image`))),
			event: "ContainerWaiting", ready: "Building", truth: "SourceValid Reconciling", says: "ErrImagePull: no such image",
		},
		"NoSecret": {
			seen:  seen(deployment(1, 0, latest), nil, configless(pod(latest, ended(0, `{"reason":"Built"}`)))),
			event: "ContainerWaiting", ready: "RollingOut", truth: "SourceValid Built Reconciling", says: `secret "database" not found`,
		},
		"OtherContainerEnds": { // a container added by a policy of the cluster
			seen:  seen(deployment(1, 0, latest), nil, beside(pod(latest, ended(0, `{"reason":"Built"}`)), failing("agent"))),
			event: "ContainerFailed", ready: "RollingOut", truth: "SourceValid Built Reconciling",
			says: `0 of 1 replicas are ready with the latest version; container "agent", which is not part of the Function, exited with code 3 (Error), so its pod is not ready; see kubectl logs f-1 --container agent --previous`,
		},
		"OtherContainerHangs": {
			seen:  seen(deployment(1, 0, latest), nil, beside(pod(latest, ended(0, `{"reason":"Built"}`)), runsSince("agent", noon.Add(-status.SlowStart)))),
			event: "ContainerFailed", ready: "RollingOut", truth: "SourceValid Built Reconciling",
			says: `container "agent", which is not part of the Function, has been running since 2026-11-23T11:59:00Z and is not ready, so its pod is not ready; see kubectl logs f-1 --container agent`,
		},
		"OtherContainerStarts": {
			seen:  seen(deployment(1, 0, latest), nil, beside(pod(latest, ended(0, `{"reason":"Built"}`)), runsSince("agent", noon.Add(-time.Second)))),
			ready: "RollingOut", truth: "SourceValid Built Reconciling", says: `container "agent", which is not part of the Function, is running and not ready yet`, silent: "kubectl",
		},
		"NoImageOfOthers": {
			seen: seen(deployment(1, 0, latest), nil, beside(pod(latest, ended(0, `{"reason":"Built"}`)), corev1.ContainerStatus{
				Name: "agent", State: waiting("ErrImagePull", "no such image"),
			})),
			event: "ContainerWaiting", ready: "RollingOut", truth: "SourceValid Built Reconciling",
			says: `container "agent", which is not part of the Function, ErrImagePull: no such image`,
		},
		"InitContainerOfOthers": { // the builder cannot start
			seen:  seen(deployment(1, 0, latest), nil, beforeBuild(failing("network-init"))),
			event: "ContainerFailed", ready: "Building", truth: "SourceValid Reconciling", says: `container "network-init", which is not part of the Function, exited with code 3 (Error)`,
		},
		"InitContainerOfOthersShared": {
			seen:  ordered(seen(deployment(1, 0, latest), nil, beforeBuild(failing("network-init"))), plan.BuildState{PodsHaveBinary: true}),
			event: "ContainerFailed", ready: "RollingOut", truth: "SourceValid Built Reconciling", says: `container "network-init", which is not part of the Function, exited with code 3 (Error)`,
		},
		"Starts": {
			seen:  seen(deployment(1, 0, latest), nil, since(pod(latest, ended(0, `{"reason":"Built"}`)), noon.Add(-time.Second))),
			ready: "RollingOut", truth: "SourceValid Built Reconciling", says: "a replica is running and not serving yet", silent: "log",
		},
		"Hangs": {
			seen:  seen(deployment(1, 0, latest), nil, since(pod(latest, ended(0, `{"reason":"Built"}`)), noon.Add(-status.SlowStart))),
			event: "NotServing", ready: "RollingOut", truth: "SourceValid Built Reconciling",
			says: "a replica has been running since 2026-11-23T11:59:00Z and is not serving: Start, an init function or the initialization of a package variable does not return, or Ready fails; see kubectl logs f-1",
		},
		"HangsAgain": {
			seen:  seen(deployment(1, 0, latest), nil, restarted(since(pod(latest, ended(0, `{"reason":"Built"}`)), noon.Add(-time.Second)))),
			ready: "RollingOut", truth: "SourceValid Built Reconciling", says: "(previously it exited with code 143: it received SIGTERM because its health check failed",
		},
		"Overdue": {
			seen:  seen(overdue(deployment(1, 0, latest)), nil, since(pod(latest, ended(0, `{"reason":"Built"}`)), noon.Add(-11*time.Minute))),
			event: "NotServing", ready: "ProgressDeadlineExceeded", truth: "SourceValid Built Stalled",
			says: "no replica became ready within 600 seconds: 0 of 1 replicas are ready with the latest version; a replica has been running since 2026-11-23T11:49:00Z and is not serving",
		},
		"OverdueBefore": { // the new template is not overdue
			seen:  templateOf(seen(overdue(deployment(1, 0, latest)), nil), "new"),
			ready: "Building", truth: "SourceValid Reconciling",
		},
		"OverdueNotLooked": {
			seen:  seen(stale(overdue(deployment(1, 0, latest))), nil),
			ready: "Building", truth: "SourceValid Reconciling",
		},
		"OverdueAndCrashing": { // the cause takes precedence
			seen:  seen(overdue(deployment(1, 0, latest)), nil, crashing(pod(latest, ended(0, `{"reason":"Built"}`)))),
			ready: "CrashLooping", truth: "SourceValid Built Stalled",
		},
		"Serves": {
			seen:  seen(deployment(1, 1, latest), sets(latest), pod(latest, ended(0, `{"reason":"Built"}`))),
			ready: "Serving", truth: "SourceValid Built Available Ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(1)
			test.seen.Snapshot.Time = noon
			got := status.Of(fn, test.seen)
			ready := meta.FindStatusCondition(got.Conditions, "Ready")
			if ready.Reason != test.ready || !strings.Contains(ready.Message, test.says) || test.silent != "" && strings.Contains(ready.Message, test.silent) {
				t.Errorf("Ready is %s: %q, want %s: %q, and not %q", ready.Reason, ready.Message, test.ready, test.says, test.silent)
			}
			if truth := truth(got); truth != test.truth {
				t.Errorf("true conditions: %q, want %q", truth, test.truth)
			}
			h := status.PodProblem(fn, test.seen)
			if (h == nil) != (test.event == "") || h != nil && (h.Reason != test.event || !strings.Contains(ready.Message, h.Message)) {
				t.Errorf("event %+v, want reason %q and a part of %q", h, test.event, ready.Message)
			}
			invariants(t, fn, got)
		})
	}
}

// UntilSlow counts from the start of each container that is not ready, also of containers of other
// owners.
func TestUntilSlow(t *testing.T) {
	for name, test := range map[string]struct {
		pod  corev1.Pod
		want time.Duration
	}{
		"Function": {since(pod(latest, ended(0, "")), noon.Add(-50*time.Second)), 10 * time.Second},
		"Other":    {beside(pod(latest, ended(0, "")), runsSince("agent", noon.Add(-20*time.Second))), 40 * time.Second},
		"Init":     {beforeBuild(runsSince("network-init", noon.Add(-20*time.Second))), 40 * time.Second},
		"Build":    {pod(latest, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}), 0},
	} {
		s := seen(deployment(1, 0, latest), nil, test.pod)
		s.Snapshot.Time = noon
		if got := status.UntilSlow(function(1), s); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// The time in which a pod waits for the build of its binary does not count as a slow start.
func TestSlowStartAfterBuild(t *testing.T) {
	const built, building = v1beta1.ReasonBuilt, v1beta1.ReasonBuilding
	for name, test := range map[string]struct {
		reason string // of Built
		status metav1.ConditionStatus
		since  time.Duration // since Built has its status
		slow   bool
	}{
		"Builds":     {building, metav1.ConditionUnknown, 10 * time.Minute, false},
		"JustBuilt":  {built, metav1.ConditionTrue, 59 * time.Second, false},
		"BuiltLong":  {built, metav1.ConditionTrue, status.SlowStart, true},
		"SourceEdit": {v1beta1.ReasonInvalidSource, metav1.ConditionFalse, time.Second, true},
	} {
		fn := function(1)
		fn.Status.LatestRevision = latest
		fn.Status.Conditions = []metav1.Condition{{Type: "Built", Status: test.status, Reason: test.reason, LastTransitionTime: metav1.NewTime(noon.Add(-test.since))}}
		s := ordered(seen(deployment(1, 0, latest), nil, since(sharedPod(latest), noon.Add(-10*time.Minute))), plan.BuildState{})
		s.Snapshot.Time = noon
		if problem := status.PodProblem(fn, s); (problem != nil) != test.slow {
			t.Errorf("%s: the problem is %+v", name, problem)
		}
	}
}

// The progress deadline of a function applies to the time after the build of its binary.
func TestOverdueAfterBuild(t *testing.T) {
	for name, test := range map[string]struct {
		built time.Duration // before now
		ready string
		again time.Duration // until the status is computed again
	}{
		"Now":  {0, "RollingOut", 10 * time.Minute},
		"Ago":  {9 * time.Minute, "RollingOut", time.Minute},
		"Late": {10 * time.Minute, "ProgressDeadlineExceeded", 0},
	} {
		fn := function(1)
		fn.Status.LatestRevision = latest
		fn.Status.Conditions = []metav1.Condition{{Type: "Built", Status: metav1.ConditionTrue, Reason: "Built", LastTransitionTime: metav1.NewTime(noon.Add(-test.built))}}
		s := ordered(seen(overdue(deployment(1, 0, latest)), nil), plan.BuildState{PodsHaveBinary: true})
		s.Snapshot.Time = noon
		if ready := meta.FindStatusCondition(status.Of(fn, s).Conditions, "Ready"); ready.Reason != test.ready {
			t.Errorf("%s: the reason of Ready is %s, want %s", name, ready.Reason, test.ready)
		}
		if again := status.UntilSlow(fn, s); again != test.again {
			t.Errorf("%s: again after %s, want %s", name, again, test.again)
		}
	}
}

// beside adds another container to a pod whose function is ready.
func beside(p corev1.Pod, other corev1.ContainerStatus) corev1.Pod {
	p.Name = "f-1"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{other, {Name: desired.FunctionContainer, Ready: true, State: running()}}
	return p
}

// beforeBuild returns a pod with another init container before the one that compiles.
func beforeBuild(other corev1.ContainerStatus) corev1.Pod {
	p := pod(latest, corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}})
	p.Name = "f-1"
	p.Status.InitContainerStatuses = append([]corev1.ContainerStatus{other}, p.Status.InitContainerStatuses...)
	return p
}

// failing returns the status of a container that exits repeatedly.
func failing(name string) corev1.ContainerStatus {
	last := ended(3, "")
	last.Terminated.Reason = "Error"
	return corev1.ContainerStatus{Name: name, State: waiting("CrashLoopBackOff", "back-off 10s"), LastTerminationState: last, RestartCount: 4}
}

// runsSince returns the status of a container that is running and not ready.
func runsSince(name string, began time.Time) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}}}
}

// budgeted sets the resources of pods that compile.
func budgeted(d *appsv1.Deployment) *appsv1.Deployment {
	amounts := func(memory string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	}
	limits := amounts("768Mi")
	limits[corev1.ResourceCPU] = resource.MustParse("2")
	d.Spec.Template.Spec.InitContainers = []corev1.Container{{Name: desired.BuildContainer, Resources: corev1.ResourceRequirements{Requests: amounts("128Mi"), Limits: limits}}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: desired.FunctionContainer, Resources: corev1.ResourceRequirements{Requests: amounts("32Mi"), Limits: amounts("256Mi")}}}
	return d
}

// refusing returns a ReplicaSet of the latest revision that cannot create pods.
func refusing(message string) appsv1.ReplicaSet {
	rs := set(latest, 0)
	rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: message}}
	return rs
}

func forbids(message string) []appsv1.ReplicaSet { return []appsv1.ReplicaSet{refusing(message)} }

func numberedSet(rs appsv1.ReplicaSet, number string) appsv1.ReplicaSet {
	rs.Annotations = map[string]string{desired.RolloutAnnotation: number}
	return rs
}

// failingBefore sets the number of a second rollout, and a failure of the first one.
func failingBefore(d *appsv1.Deployment) *appsv1.Deployment {
	d.Annotations = map[string]string{desired.RolloutAnnotation: "2"}
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: overQuota}}
	return d
}

func setless(d *appsv1.Deployment) *appsv1.Deployment {
	return progress(d, "ReplicaSetCreateError", "exceeded quota")
}

func overdue(d *appsv1.Deployment) *appsv1.Deployment {
	return progress(d, "ProgressDeadlineExceeded", "it has timed out")
}

func progress(d *appsv1.Deployment, reason, message string) *appsv1.Deployment {
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
	return d
}

// since sets the status of a pod whose function is running and not ready.
func since(p corev1.Pod, began time.Time) corev1.Pod {
	p.Name = "f-1"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: desired.FunctionContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}},
	}}
	return p
}

func restarted(p corev1.Pod) corev1.Pod {
	p.Status.ContainerStatuses[0].RestartCount = 1
	p.Status.ContainerStatuses[0].LastTerminationState = ended(143, "")
	return p
}
