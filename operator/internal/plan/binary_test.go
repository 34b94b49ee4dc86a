package plan_test

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/plan"
)

// Orders are doubted for pods that may be fetching a binary that the build service has lost, and
// not for other pods, such as pods that are not scheduled yet.
func TestDoubtOrders(t *testing.T) {
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	now := time.Unix(1e9, 0)
	since := func(seconds int) corev1.ContainerState {
		started := metav1.NewTime(now.Add(-time.Duration(seconds) * time.Second))
		return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	}
	running := since(30)
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	for name, c := range map[string]struct {
		container corev1.ContainerStatus
		want      bool
	}{
		"Pending":       {corev1.ContainerStatus{State: waiting}, false},
		"Started":       {corev1.ContainerStatus{State: running}, true},
		"Ready":         {corev1.ContainerStatus{State: running, Ready: true}, false},
		"Restarted":     {corev1.ContainerStatus{State: running, RestartCount: 1, LastTerminationState: ended(2)}, false},
		"WithoutBinary": {corev1.ContainerStatus{State: waiting, RestartCount: 1, LastTerminationState: ended(125)}, true},
		"NeverReady":    {corev1.ContainerStatus{State: since(13 * 60)}, false},
		"NotReadyAgain": {corev1.ContainerStatus{State: since(13 * 60), RestartCount: 2, LastTerminationState: ended(125)}, false},
		"FetchesAgain":  {corev1.ContainerStatus{State: running, RestartCount: 2, LastTerminationState: ended(125)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := begin(t, shared, first).serving(binary, 0).answer(buildclient.Answer{Binary: binary}).pod(c.container)
			s.seen.Time = now
			p := plan.Of(s.fn, s.seen)
			if p.DoubtOrders != c.want || len(p.Orders) != 1 {
				t.Errorf("%d orders, doubted %t, want %t", len(p.Orders), p.DoubtOrders, c.want)
			}
		})
	}
}

// The pods of a Function without a Deployment start while its source compiles. Their Deployment is
// deleted if that fails, if the source changes before, or if the function is stopped, and never if
// one of its pods has been ready.
func TestFirstDeployment(t *testing.T) {
	report := []byte(`{"reason":"Built"}`)
	broken := []byte(`{"reason":"CompileFailed"}`)
	expected, built, fails := buildclient.Answer{Expected: binary}, buildclient.Answer{Binary: binary, Report: report}, buildclient.Answer{Report: broken}
	other := &desired.Binary{Service: "https://build", Key: "other", Capability: "capability", PublicKey: "public"}
	stop := func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(0)) }
	loads := func(fn *v1beta1.Function) {
		fn.Spec.Replicas, fn.Spec.Scaling = nil, &v1beta1.Scaling{Max: new(int32(3))}
	}
	failedBefore := func(fn *v1beta1.Function) {
		failed(fn)
		fn.Status.LatestRevision = desired.Revision(first)
	}
	waiting := func() *scene { return begin(t, shared, first).awaiting(binary) }
	ready := func() *scene {
		s := waiting()
		s.seen.Deployment.Status.ReadyReplicas = 1
		return s
	}
	readyPod := waiting()
	readyPod.pod(corev1.ContainerStatus{}).seen.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	readyBefore := waiting()
	readyBefore.seen.Deployment.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Reason: "NewReplicaSetAvailable"}}
	orphanedPods := begin(t, shared, first).answer(expected)
	orphanedPods.seen.RevisionsInUse[desired.Revision(second)] = true
	lostSource := waiting().with(func(fn *v1beta1.Function) { fn.Status.LatestRevision = desired.Revision(first) }).change(refused)
	invalid := func(s *scene) *scene {
		s.seen.Verdict.Spec = field.ErrorList{field.Invalid(field.NewPath("spec"), 1, "wrong")}
		return s
	}
	for name, test := range map[string]struct {
		scene    *scene
		revision string // source; empty for no Deployment
		binary   *desired.Binary
		replicas int32
		awaits   bool // the planned Deployment awaits its build
		deleted  bool // the Deployment is deleted
	}{
		"Expected":          {begin(t, shared, first).answer(expected), first, binary, 1, true, false},
		"Queued":            {begin(t, shared, first).answer(buildclient.Answer{Waiting: time.Unix(1, 0)}), "", nil, 0, false, false},
		"Stopped":           {begin(t, shared, first).with(stop).answer(expected), "", nil, 0, false, false},
		"FailedBefore":      {begin(t, shared, first).with(failedBefore).answer(expected), "", nil, 0, false, false},
		"AnotherFailed":     {begin(t, shared, first).with(failedBefore).change(second).answer(expected), second, binary, 1, true, false},
		"TriedAgain":        {begin(t, shared, first).answer(buildclient.Answer{Expected: binary, Report: broken}), "", nil, 0, false, false},
		"OrphanedPods":      {orphanedPods, "", nil, 0, false, false},
		"Waits":             {waiting().answer(expected), first, binary, 1, true, false},
		"OperatorRestarted": {waiting(), first, binary, 1, true, false},
		"ServiceIsLost":     {waiting().answer(buildclient.Answer{Trouble: "refused"}), first, binary, 1, true, false},
		"OtherExpected":     {waiting().answer(buildclient.Answer{Expected: other}), first, other, 1, true, false},
		"Built":             {waiting().answer(built), first, binary, 1, false, false},
		"StoppedMeanwhile":  {waiting().with(stop).answer(expected), "", nil, 0, false, true},
		"Broken":            {waiting().answer(fails), "", nil, 0, false, true},
		"Changed":           {waiting().change(second).answer(buildclient.Answer{Expected: other}), "", nil, 0, false, true},
		"ChangedBuilt":      {waiting().change(second).answer(buildclient.Answer{Binary: other, Report: report}), second, other, 1, false, false},
		"InvalidSpec":       {invalid(waiting()), "", nil, 0, false, true},
		"LostSource":        {lostSource, "", nil, 0, false, true},
		"InPod":             {waiting().under(inPod), first, nil, 1, false, false},
		"Serves":            {begin(t, shared, first).serving(binary, 1).change(second).answer(buildclient.Answer{Expected: other}), first, binary, 1, false, false},
		"Ready":             {ready(), first, binary, 1, false, false},
		"ReadyAndChanged":   {ready().change(second).answer(buildclient.Answer{Expected: other}), first, binary, 1, false, false},
		"ReadyAndBroken":    {ready().answer(fails), first, binary, 1, false, false},
		"ReadyAndInvalid":   {invalid(ready()), "", nil, 0, false, false},
		"ReadyPod":          {readyPod.answer(fails), first, binary, 1, false, false},
		"ReadyBefore":       {readyBefore.answer(fails), first, binary, 1, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := test.scene.plan()
			wantDeployment(t, p.Deployment, test.revision, test.binary, test.replicas)
			marked := p.Deployment != nil && p.Deployment.Labels["goless.io/awaits-build"] != ""
			if p.AwaitsBuild != test.awaits || marked != test.awaits {
				t.Errorf("awaits its build: %t, marked: %t, want %t", p.AwaitsBuild, marked, test.awaits)
			}
			if got := slices.Contains(deleted(p), "f"); got != test.deleted {
				t.Errorf("deleted: %t, want %t", got, test.deleted)
			}
			if p.Build != nil && p.Build.PodsHaveBinary && p.AwaitsBuild {
				t.Error("the build counts as done")
			}
		})
	}
	if p := begin(t, shared, first).with(loads).answer(expected).plan(); p.Deployment == nil || p.Autoscaler != nil {
		t.Error("a Deployment that awaits its build has a HorizontalPodAutoscaler")
	}
}
