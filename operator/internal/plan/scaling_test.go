package plan_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"goless.io/operator/api/v1beta1"
)

// scaling returns a change of spec.scaling; max is not set if most is 0.
func scaling(least, most int32) func(*v1beta1.Function) {
	return func(fn *v1beta1.Function) {
		fn.Spec.Scaling = &v1beta1.Scaling{Min: &least}
		if most > 0 {
			fn.Spec.Scaling.Max = &most
		}
	}
}

// requests returns a change of spec.scaling to scale by requests in flight.
func requests(least, most int32) func(*v1beta1.Function) {
	return func(fn *v1beta1.Function) {
		fn.Spec.Scaling = &v1beta1.Scaling{Min: &least, Max: &most, Requests: new(int32(10))}
	}
}

func replicas(n int32) func(*v1beta1.Function) {
	return func(fn *v1beta1.Function) { fn.Spec.Replicas = &n }
}

// rolledOut returns a scene with a serving Function whose rollout is complete. Another owner has
// set its number of replicas to now.
func rolledOut(t *testing.T, least, most, now int32) *scene {
	t.Helper()
	s := begin(t, inPod, first).with(scaling(least, most)).serving(nil, 1)
	s.seen.Time = time.Unix(1e9, 0)
	s.seen.Deployment.Spec.Replicas, s.seen.Deployment.ResourceVersion = &now, "7"
	s.seen.Deployment.Status = appsv1.DeploymentStatus{
		Replicas: now, UpdatedReplicas: now, ReadyReplicas: now,
		Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}},
	}
	meta.SetStatusCondition(&s.fn.Status.Conditions, metav1.Condition{Type: v1beta1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: v1beta1.ReasonServing})
	s.own(s.seen.Autoscaler, "autoscaler")
	return s
}

// woken returns a scene with a Function whose source was changed while it slept, and which is
// waking up.
func woken(t *testing.T, pods ...corev1.Pod) *scene {
	t.Helper()
	s := rolledOut(t, 0, 0, 1).change(second)
	s.seen.Deployment.Status.ReadyReplicas = 0
	s.seen.Pods = pods
	return s
}

// revalued returns a scene with a sleeping Function whose ConfigMaps have changed.
func revalued(t *testing.T, values string) *scene {
	t.Helper()
	s := begin(t, inPod, first)
	s.seen.Values.Hash = "hash"
	slept := rolledOut(t, 0, 0, 0)
	s.fn.Spec.Scaling = slept.fn.Spec.Scaling
	s.serving(nil, 0)
	s.fn.Status, s.seen.Time = slept.fn.Status, slept.seen.Time
	s.seen.Deployment.Spec.Replicas, s.seen.Deployment.ResourceVersion, s.seen.Deployment.Status = new(int32(0)), "7", slept.seen.Deployment.Status
	s.seen.Values.Hash = values
	return s
}

// starting returns a pod that was created age before the time of the Snapshot.
func starting(age time.Duration, change func(*corev1.Pod)) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(time.Unix(1e9, 0).Add(-age))}}
	change(&pod)
	return pod
}

// The number of replicas is applied if it does not depend on the load. Otherwise the operator sets
// it only if it owned the number before, if the number is out of bounds, or to wake the function.
func TestScaling(t *testing.T) {
	ceiling := inPod
	ceiling.Function.MaxReplicas = 5
	unseen := func(fn *v1beta1.Function) {
		meta.RemoveStatusCondition(&fn.Status.Conditions, v1beta1.ConditionAvailable)
	}
	unproven := rolledOut(t, 0, 0, 0).change(second)
	unproven.seen.Deployment.Status.Conditions[0].Reason = "ReplicaSetUpdated"
	full := rolledOut(t, 0, 0, 0).change(second)
	full.seen.Deployment.Status.Conditions = append(full.seen.Deployment.Status.Conditions,
		appsv1.DeploymentCondition{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue})
	stopped := rolledOut(t, 0, 0, 0).with(replicas(0)).deployed(nil, 0)
	stoppedToo := rivalled(rolledOut(t, 1, 1, 0).with(replicas(0)).deployed(nil, 0))
	idle := func(*corev1.Pod) {}
	ready := func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	ends := func(pod *corev1.Pod) { pod.DeletionTimestamp = new(metav1.Now()); ready(pod) }
	evicted := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodFailed }
	crashed := func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	}
	newer := inPod
	newer.Images.Function = "launcher:2"
	none := int32(-1)
	valued := func(values string) *scene { return revalued(t, values) }
	for name, test := range map[string]struct {
		scene           *scene
		applied, scaled int32 // none if it is not set
		most            int32 // maxReplicas of the HorizontalPodAutoscaler; 0 for none
		hold            time.Duration
	}{
		"Without":          {begin(t, inPod, first).with(replicas(3)).serving(nil, 3), 3, none, 0, 0},
		"Fixed":            {rolledOut(t, 3, 3, 3), 3, none, 0, 0},
		"FixedByDefault":   {rolledOut(t, 3, 0, 3), 3, none, 0, 0},
		"ToFixed":          {rolledOut(t, 1, 8, 6).with(scaling(2, 2)), 2, none, 0, 0},
		"First":            {begin(t, inPod, first).with(scaling(2, 8)), none, none, 8, 0},
		"HandedOver":       {begin(t, inPod, first).with(replicas(3)).serving(nil, 3).with(scaling(1, 8)), none, 3, 8, 0},
		"HandedOverBelow":  {begin(t, inPod, first).serving(nil, 1).with(scaling(2, 8)), none, 2, 8, 0},
		"HandedOverAbove":  {begin(t, inPod, first).with(replicas(3)).serving(nil, 3).with(scaling(0, 0)), none, 1, 0, 0},
		"TakenBack":        {rolledOut(t, 1, 8, 6).with(replicas(4)).with(func(fn *v1beta1.Function) { fn.Spec.Scaling = nil }), 4, none, 0, 0},
		"Requests":         {rolledOut(t, 1, 8, 6).with(requests(1, 8)), none, none, 0, 0},
		"RequestsFirst":    {begin(t, inPod, first).with(replicas(3)).serving(nil, 3).with(requests(1, 8)), none, 3, 0, 0},
		"RequestsToCPU":    {rolledOut(t, 1, 8, 6).with(requests(1, 8)).with(scaling(1, 8)), none, none, 8, 0},
		"RequestsToFixed":  {rolledOut(t, 1, 8, 6).with(requests(1, 8)).with(scaling(2, 2)), 2, none, 0, 0},
		"Within":           {rolledOut(t, 1, 8, 6), none, none, 8, 0},
		"MaxLowered":       {rolledOut(t, 1, 8, 6).with(scaling(1, 4)), none, 4, 4, 0},
		"MinRaised":        {rolledOut(t, 1, 8, 1).with(scaling(2, 8)), none, 2, 8, 0},
		"OverTheCeiling":   {rolledOut(t, 1, 8, 6).under(ceiling), none, 5, 5, 0},
		"Stopped":          {rolledOut(t, 0, 8, 6).with(replicas(0)), 0, none, 0, 0},
		"StoppedAsleep":    {rolledOut(t, 0, 8, 0).with(replicas(0)), 0, none, 0, 0},
		"Started":          {stopped.with(replicas(1)), none, 1, 0, 0},
		"Rival":            {rivalled(begin(t, inPod, first).with(replicas(3)).serving(nil, 3)), none, 3, 0, 0},
		"RivalScales":      {rivalled(rolledOut(t, 1, 8, 6).with(scaling(2, 2))), none, none, 0, 0},
		"RivalOverMax":     {rivalled(rolledOut(t, 1, 8, 12)), none, none, 0, 0},
		"RivalScalesToo":   {rivalled(begin(t, inPod, first).with(replicas(3)).serving(nil, 3).with(scaling(1, 8))), none, 3, 0, 0},
		"RivalAndStopped":  {rivalled(rolledOut(t, 1, 8, 6).with(replicas(0))), 0, none, 0, 0},
		"RivalAndStarted":  {stoppedToo.with(replicas(1)), none, 1, 0, 0},
		"RivalScalesTo0":   {rivalled(rolledOut(t, 1, 8, 0)), none, none, 0, 0},
		"RivalAndAsleep":   {rivalled(rolledOut(t, 0, 0, 0)), none, none, 0, 0},
		"RivalAsleepNew":   {rivalled(rolledOut(t, 0, 0, 0).change(second)), none, 1, 0, 2 * time.Minute},
		"RivalAndRefused":  {rivalled(rolledOut(t, 1, 8, 6).change(refused)), none, none, 0, 0},
		"Refused":          {rolledOut(t, 0, 8, 6).change(refused), none, none, 8, 0},
		"Asleep":           {rolledOut(t, 0, 0, 0), none, none, 0, 0},
		"AsleepOfMany":     {rolledOut(t, 0, 8, 0), none, none, 8, 0},
		"AsleepAndRefused": {rolledOut(t, 0, 0, 0).change(refused), none, none, 0, 0},
		"AsleepUnseen":     {rolledOut(t, 0, 0, 0).with(unseen), none, 1, 0, 0},
		"NoLongerSleeps":   {rolledOut(t, 0, 8, 0).with(scaling(2, 8)), none, 2, 8, 0},
		"Asleep, changed":  {rolledOut(t, 0, 0, 0).change(second), none, 1, 0, 2 * time.Minute},
		"Asleep, values":   {valued("other"), none, none, 0, 0},
		"Asleep, no value": {valued(""), none, none, 0, 0},
		"Asleep, both":     {valued("other").change(second), none, 1, 0, 2 * time.Minute},
		"Asleep, upgraded": {valued("other").under(newer), none, 1, 0, 2 * time.Minute},
		"Asleep, unproven": {unproven, none, 1, 0, 0},
		"Asleep, no room":  {full, none, 1, 0, 0},
		"Awake, changed":   {woken(t, starting(time.Hour, ready)), none, none, 0, 0},
		"Woken":            {woken(t), none, none, 0, 2 * time.Minute},
		"Woken, starts":    {woken(t, starting(90*time.Second, idle)), none, none, 0, 30 * time.Second},
		"Woken, too slow":  {woken(t, starting(2*time.Minute, idle)), none, none, 0, 0},
		"Woken, ready":     {woken(t, starting(time.Second, ready)), none, none, 0, 0},
		"Woken, crashed":   {woken(t, starting(time.Second, crashed)), none, none, 0, 0},
		"Woken, not yet":   {woken(t, starting(time.Hour, ends)), none, none, 0, 2 * time.Minute},
		"Woken, one ends":  {woken(t, starting(time.Minute, ends)), none, none, 0, 2 * time.Minute},
		"Woken, evicted":   {woken(t, starting(90*time.Second, evicted), starting(time.Second, idle)), none, none, 0, 0},
		"Never sleeps":     {rolledOut(t, 1, 8, 1).change(second), none, none, 8, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := test.scene.plan()
			most := int32(0)
			if p.Autoscaler != nil {
				most = *p.Autoscaler.Spec.MaxReplicas
			}
			got := [3]int32{or(p.Deployment.Spec.Replicas, none), or(p.Scale, none), most}
			if want := [3]int32{test.applied, test.scaled, test.most}; got != want {
				t.Errorf("replicas applied, replicas set, maximum of the autoscaler: %v, want %v", got, want)
			}
			if test.scene.seen.Autoscaler.UID != "" && slices.Contains(deleted(p), "autoscaler") != (test.most == 0) {
				t.Errorf("deletes %v", deleted(p))
			}
			if p.DeploymentDelay != test.hold {
				t.Errorf("DeploymentDelay %v, want %v", p.DeploymentDelay, test.hold)
			}
		})
	}
}

// The activator scales a function by its requests in flight if the Service says so, and not if
// another autoscaler does or the function was stopped.
func TestServiceOfRequestScaling(t *testing.T) {
	ceiling := inPod
	ceiling.Function.MaxReplicas = 5
	for name, test := range map[string]struct {
		scene *scene
		want  string
	}{
		"Requests": {rolledOut(t, 0, 8, 6).with(requests(0, 8)), `{"min":1,"max":8,"requests":10}`},
		"Ceiling":  {rolledOut(t, 2, 8, 6).with(requests(2, 8)).under(ceiling), `{"min":2,"max":5,"requests":10}`},
		"CPU":      {rolledOut(t, 0, 8, 6), ""},
		"Fixed":    {rolledOut(t, 1, 1, 1).with(requests(1, 1)), ""},
		"Stopped":  {rolledOut(t, 0, 8, 6).with(requests(0, 8)).with(replicas(0)), ""},
		"Rival":    {rivalled(rolledOut(t, 0, 8, 6).with(requests(0, 8))), ""},
	} {
		if got := test.scene.plan().Service.Annotations[v1beta1.ScalingAnnotation]; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// If another autoscaler scales a function, the minimum of a window does not wake it. So a request must
// still do that.
func TestWindowOfScaledByOthers(t *testing.T) {
	for now, want := range map[int32]string{0: "5m0s", 3: ""} {
		s := rivalled(rolledOut(t, 1, 8, now))
		s.seen.Service.Annotations = map[string]string{v1beta1.SleepAfterAnnotation: "5m0s"}
		if got := s.plan().Service.Annotations[v1beta1.SleepAfterAnnotation]; got != want {
			t.Errorf("with %d replicas: %q, want %q", now, got, want)
		}
	}
}

// rivalled adds HorizontalPodAutoscalers of other owners that scale the Deployment.
func rivalled(s *scene) *scene {
	for _, name := range []string{"theirs", "keda-hpa-f"} {
		s.seen.ForeignAutoscalers = append(s.seen.ForeignAutoscalers, autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	s.seen.ForeignAutoscalers[1].OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "queue", Controller: new(true)}}
	return s
}

// A HorizontalPodAutoscaler of another owner is reported, also while the spec is invalid or the
// function is stopped.
func TestAutoscalerConflict(t *testing.T) {
	refusedSpec := rivalled(rolledOut(t, 1, 8, 6))
	refusedSpec.seen.Verdict.Spec = field.ErrorList{field.Required(field.NewPath("spec"), "")}
	for name, s := range map[string]*scene{
		"Serving": rivalled(rolledOut(t, 1, 8, 6)), "Stopped": rivalled(rolledOut(t, 1, 8, 0).with(replicas(0))), "Refused": refusedSpec,
	} {
		p := s.plan()
		if p.AutoscalerConflict == nil || p.AutoscalerConflict.Reason != v1beta1.ReasonAutoscalerConflict ||
			!strings.Contains(p.AutoscalerConflict.Message, `is scaled by HorizontalPodAutoscaler "keda-hpa-f" of ScaledObject "queue" and HorizontalPodAutoscaler "theirs"`) {
			t.Errorf("%s: conflict %+v", name, p.AutoscalerConflict)
		}
		if p.ReplicasLeftToOthers(s.fn) != (name != "Stopped") {
			t.Errorf("%s: ReplicasLeftToOthers is %t", name, p.ReplicasLeftToOthers(s.fn))
		}
	}
	if p := rolledOut(t, 1, 8, 6).plan(); p.AutoscalerConflict != nil {
		t.Errorf("without another autoscaler: conflict %+v", p.AutoscalerConflict)
	}
}

// or returns the value of n, or otherwise if n is nil.
func or(n *int32, otherwise int32) int32 {
	if n == nil {
		return otherwise
	}
	return *n
}

// The template of a function that may sleep is changed only if the Deployment is unchanged since
// the Snapshot: the function may be woken or scaled to zero concurrently.
func TestChangeOfWhatMaySleep(t *testing.T) {
	for name, test := range map[string]struct {
		scene *scene
		named bool
	}{
		"Changed":      {rolledOut(t, 0, 0, 1).change(second), true},
		"Values":       {revalued(t, "other"), true},
		"Unchanged":    {rolledOut(t, 0, 0, 1), false},
		"Never sleeps": {rolledOut(t, 1, 8, 1).change(second), false},
	} {
		d := test.scene.plan().Deployment
		if got := d.ResourceVersion; (got != nil && *got == "7") != test.named {
			t.Errorf("%s: applied with resource version %v", name, got)
		}
	}
}
