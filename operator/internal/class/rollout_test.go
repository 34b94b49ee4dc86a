package class

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

func TestNextRollout(t *testing.T) {
	many := func(n int, as member) []member { return slices.Repeat([]member{as}, n) }
	behind, done, under := member{ready: true}, member{ready: true, updated: true}, member{updated: true, rollout: rolling}
	former, hopeless := member{rollout: rolling}, member{updated: true, rollout: givenUp}
	for name, test := range map[string]struct {
		members  []member
		want     progress
		failed   int
		admitted int
	}{
		"None":          {nil, progress{}, 0, 0},
		"Few":           {many(3, behind), progress{functions: 3}, 0, 1},
		"FewUnderWay":   {append(many(2, behind), many(1, under)...), progress{functions: 3, updated: 1, rolling: 1}, 0, 0},
		"FewVerified":   {append(many(2, behind), many(1, member{updated: true, rollout: rolling, verified: true})...), progress{functions: 3, updated: 1, rolling: 1}, 0, 1},
		"FewDone":       {append(many(2, behind), many(1, done)...), progress{functions: 3, updated: 1, complete: 1}, 0, 1},
		"Tenth":         {many(50, behind), progress{functions: 50}, 0, 5},
		"RestOfATenth":  {append(many(47, behind), many(3, under)...), progress{functions: 50, updated: 3, rolling: 3}, 0, 2},
		"More":          {append(many(40, behind), many(10, under)...), progress{functions: 50, updated: 10, rolling: 10}, 0, 0}, // the class had more functions
		"Most":          {many(1000, behind), progress{functions: 1000}, 0, 20},
		"NotReady":      {many(50, member{}), progress{functions: 50}, 0, 5},
		"Former":        {append(many(47, behind), many(3, former)...), progress{functions: 50, rolling: 3}, 0, 5}, // already rolling
		"MoreFormer":    {append(many(40, behind), many(10, former)...), progress{functions: 50, rolling: 10}, 0, 10},
		"All":           {many(50, done), progress{functions: 50, updated: 50, complete: 50}, 0, 0},
		"FewerThanFree": {append(many(1, behind), many(49, done)...), progress{functions: 50, updated: 49, complete: 49}, 0, 1},
		"GivenUp":       {append(many(47, behind), many(3, hopeless)...), progress{functions: 50, updated: 3}, 3, 5},
		"FormerGivenUp": {many(50, member{rollout: givenUp}), progress{functions: 50}, 0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range test.members {
				test.members[i].name = types.NamespacedName{Namespace: "team", Name: fmt.Sprint(i)}
			}
			got, w := progressOf(test.members, stagedRollout{}), nextRollout(test.members, stagedRollout{}, "new", time.Now())
			failed := len(got.failed)
			got.failed = nil
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(progress{})); diff != "" || failed != test.failed || len(w.admitted) != test.admitted {
				t.Errorf("%d failed and %d admitted, want %d and %d: %s", failed, len(w.admitted), test.failed, test.admitted, diff)
			}
		})
	}
}

// A class that was rolled out stays so while its functions have rollouts for other reasons, until
// its spec changes, a function does not use it, or it gets another function.
func TestRolledOut(t *testing.T) {
	finished, rollout, behind := progress{functions: 2, updated: 2, complete: 2}, progress{functions: 2, updated: 2, complete: 1, rolling: 1}, progress{functions: 2, updated: 1, complete: 1}
	failed := progress{functions: 2, updated: 2, complete: 1, failed: []types.NamespacedName{{Namespace: "team", Name: "a"}}}
	more := progress{functions: 3, updated: 3, complete: 2, rolling: 1}
	class := &v1beta1.FunctionClass{}
	for _, step := range []struct {
		generation int64
		progress   progress
		want       string
	}{
		{1, rollout, v1beta1.ReasonClassRollingOut},
		{1, failed, v1beta1.ReasonClassRolloutFailed},
		{1, finished, v1beta1.ReasonClassRolledOut},
		{1, rollout, v1beta1.ReasonClassRolledOut},
		{1, failed, v1beta1.ReasonClassRolledOut},
		{1, behind, v1beta1.ReasonClassRollingOut},
		{1, rollout, v1beta1.ReasonClassRollingOut},
		{1, finished, v1beta1.ReasonClassRolledOut},
		{1, more, v1beta1.ReasonClassRollingOut},
		{1, finished, v1beta1.ReasonClassRolledOut},
		{2, rollout, v1beta1.ReasonClassRollingOut},
	} {
		class.Generation = step.generation
		setConditions(class, step.progress)
		class.Status.Functions = int32(step.progress.functions)
		c := meta.FindStatusCondition(class.Status.Conditions, v1beta1.ConditionRolledOut)
		if c.Reason != step.want || (c.Status == metav1.ConditionTrue) != (step.want == v1beta1.ReasonClassRolledOut) {
			t.Errorf("generation %d, %+v: %s %s, want %s", step.generation, step.progress, c.Status, c.Reason, step.want)
		}
	}
}

// A class with an invalid selector is neither ready nor rolled out, and is stalled until it is
// corrected.
func TestInvalidSelector(t *testing.T) {
	class := &v1beta1.FunctionClass{}
	for _, operator := range []metav1.LabelSelectorOperator{metav1.LabelSelectorOpExists, "Is", metav1.LabelSelectorOpExists} {
		class.Spec.NamespaceSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "team", Operator: operator}}}
		setConditions(class, progress{})
		valid := operator == metav1.LabelSelectorOpExists
		for kind, want := range map[string]bool{v1beta1.ConditionReady: valid, v1beta1.ConditionRolledOut: valid, v1beta1.ConditionStalled: !valid} {
			if got := meta.IsStatusConditionTrue(class.Status.Conditions, kind); got != want {
				t.Errorf("operator %s: %s is %t", operator, kind, got)
			}
		}
	}
}

// An admitted function stays admitted. One that cannot be updated delays others until
// memberTimeout. A changed class starts with the functions that were already admitted.
func TestRolloutSequence(t *testing.T) {
	named := func(name string, ready bool) member {
		return member{name: types.NamespacedName{Namespace: "team", Name: name}, ready: ready}
	}
	begun := time.Unix(1e9, 0)
	var w stagedRollout
	step := func(hash string, after time.Duration, failed int, want string, members ...member) {
		t.Helper()
		p := progressOf(members, w)
		w = nextRollout(members, w, hash, begun.Add(after))
		var got []string
		for name := range w.admitted {
			got = append(got, name.Name)
		}
		slices.Sort(got)
		if got := strings.Join(got, " "); got != want || len(p.failed) != failed {
			t.Errorf("after %v of %s: %q admitted and %v failed, want %q and %d", after, hash, got, p.failed, want, failed)
		}
	}
	step("refused", 0, 0, "b", named("a", false), named("b", true), named("c", true))
	step("refused", time.Second, 0, "b", named("a", false), named("b", true), named("c", true))
	step("refused", time.Minute, 1, "b", named("a", false), named("b", false), named("c", true))
	step("refused", memberTimeout, 1, "b c", named("a", false), named("b", false), named("c", true))
	step("refused", memberTimeout+time.Second, 2, "b c", named("a", false), named("b", false), named("c", false))
	step("correction", memberTimeout+time.Minute, 2, "b c", named("a", false), named("b", false), named("c", false))
	step("correction", 2*memberTimeout, 2, "b c", named("a", false), named("b", false), named("c", false))
	step("correction", 2*memberTimeout+time.Minute, 2, "a b c", named("a", false), named("b", false), named("c", false))
}

// The order of default classes does not depend on the order of the cache.
func TestNewestFirst(t *testing.T) {
	named := func(name string, second int64) v1beta1.FunctionClass {
		return v1beta1.FunctionClass{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(second, 0)}}
	}
	all := []v1beta1.FunctionClass{named("c", 2), named("old", 1), named("a", 2), named("b", 2)}
	for range len(all) {
		all = append(all[1:], all[0])
		var names []string
		for _, class := range slices.SortedFunc(slices.Values(all), newestFirst) {
			names = append(names, class.Name)
		}
		if diff := cmp.Diff([]string{"a", "b", "c", "old"}, names); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRolloutOf(t *testing.T) {
	whole := appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}}
	whole.Generation = 7
	whole.Status = appsv1.DeploymentStatus{ObservedGeneration: 7, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	hopeless := []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
	available := []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   rollout
	}{
		"Whole":       {func(*appsv1.Deployment) {}, over},
		"Unseen":      {func(d *appsv1.Deployment) { d.Generation = 8 }, rolling},
		"UnseenAgain": {func(d *appsv1.Deployment) { d.Generation, d.Status.Conditions = 8, hopeless }, rolling}, // of the previous template
		"None":        {func(d *appsv1.Deployment) { d.Status.Replicas, d.Status.UpdatedReplicas = 2, 0 }, rolling},
		"Surge":       {func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, rolling},
		"Unavailable": {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, rolling},
		"GivenUp":     {func(d *appsv1.Deployment) { d.Status.AvailableReplicas, d.Status.Conditions = 1, hopeless }, givenUp},
		"Paused":      {func(d *appsv1.Deployment) { d.Spec.Paused, d.Status.UpdatedReplicas = true, 0 }, givenUp},
		"PausedOver":  {func(d *appsv1.Deployment) { d.Spec.Paused = true }, over},
		"Scaled":      {func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.Conditions = new(int32(3)), available }, over},
		"Restarted":   {func(d *appsv1.Deployment) { d.Status.AvailableReplicas, d.Status.Conditions = 1, available }, over},
		"RolledBack":  {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas, d.Status.Conditions = 0, available }, rolling},
		"UnseenOver":  {func(d *appsv1.Deployment) { d.Generation, d.Status.Conditions = 8, available }, rolling}, // of the previous template
		"Stopped": {func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status = new(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 7}
		}, over},
	} {
		d := whole.DeepCopy()
		test.change(d)
		if got := rolloutOf(d); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// A Deployment whose pods wait for their first binary is not a member of its class. Its mark does not
// matter when it serves.
func TestAwaitsBuild(t *testing.T) {
	available := []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}}
	for name, test := range map[string]struct {
		marked bool
		status appsv1.DeploymentStatus
		want   bool
	}{
		"Waits":       {true, appsv1.DeploymentStatus{Replicas: 1}, true},
		"Serves":      {true, appsv1.DeploymentStatus{Replicas: 1, ReadyReplicas: 1}, false},
		"Served":      {true, appsv1.DeploymentStatus{Replicas: 1, Conditions: available}, false},
		"NotCompiled": {false, appsv1.DeploymentStatus{Replicas: 1}, false},
	} {
		d := &appsv1.Deployment{Status: test.status}
		if test.marked {
			d.Labels = map[string]string{"goless.io/awaits-build": "true"}
		}
		if got := awaitsBuild(d); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// A class is reconciled again soon after a function was admitted, and when an admitted one no longer
// delays others, however often it was reconciled in the meantime.
func TestRecheck(t *testing.T) {
	now := time.Now()
	admits := func(hash string, ages ...time.Duration) stagedRollout {
		w := stagedRollout{hash: hash, admitted: map[types.NamespacedName]time.Time{}}
		for i, age := range ages {
			w.admitted[types.NamespacedName{Name: fmt.Sprint(i)}] = now.Add(-age)
		}
		return w
	}
	for name, test := range map[string]struct {
		before, w stagedRollout
		want      time.Duration
	}{
		"None":      {admits("a"), admits("a"), 0},
		"First":     {stagedRollout{}, admits("a", 0), admittedRecheck},
		"Another":   {admits("a", time.Minute), admits("a", time.Minute, 0), admittedRecheck},
		"Same":      {admits("a", 9*time.Minute, time.Minute), admits("a", 9*time.Minute, time.Minute), time.Minute},
		"Expired":   {admits("a", time.Hour, time.Minute), admits("a", time.Hour, time.Minute), 9 * time.Minute},
		"OnlyLate":  {admits("a", time.Hour), admits("a", time.Hour), 0},
		"NextClass": {admits("a", time.Minute), admits("b", 0), admittedRecheck},
	} {
		if got := recheck(test.before, test.w, now); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// A class is reconciled after those changes of a function that its rollout depends on, and not after
// others, such as each change of the number of ready replicas.
func TestFacts(t *testing.T) {
	fn := &v1beta1.Function{}
	fn.Status.Conditions = []metav1.Condition{{Type: v1beta1.ConditionReady, Status: metav1.ConditionFalse}}
	for name, test := range map[string]struct {
		change func(*v1beta1.Function)
		want   bool
	}{
		"Source":  {func(fn *v1beta1.Function) { fn.Spec.Function, fn.Generation = "next", 2 }, false},
		"Status":  {func(fn *v1beta1.Function) { fn.Status.ReadyReplicas = 3 }, false},
		"Message": {func(fn *v1beta1.Function) { fn.Status.Conditions[0].Message = "starting" }, false},
		"Ready":   {func(fn *v1beta1.Function) { fn.Status.Conditions[0].Status = metav1.ConditionTrue }, true},
		"Class":   {func(fn *v1beta1.Function) { fn.Spec.ClassName = "gold" }, true},
	} {
		now := fn.DeepCopy()
		test.change(now)
		if got := functionFacts(fn) != functionFacts(now); got != test.want {
			t.Errorf("Function, %s: %t, want %t", name, got, test.want)
		}
	}

	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 3, UpdatedReplicas: 3, ReadyReplicas: 2, AvailableReplicas: 2}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"Replicas": {func(d *appsv1.Deployment) { d.Status.ReadyReplicas = 1 }, false},
		"Done":     {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 3 }, true},
		"Label":    {func(d *appsv1.Deployment) { d.Labels = map[string]string{desired.ClassLabel: "next"} }, true},
		"Owner": {func(d *appsv1.Deployment) {
			d.OwnerReferences = []metav1.OwnerReference{{UID: "uid", Controller: new(true)}}
		}, true},
		"Compiling": {func(d *appsv1.Deployment) {
			d.Labels, d.Status.ReadyReplicas = map[string]string{"goless.io/awaits-build": "true"}, 0
		}, true},
	} {
		now := d.DeepCopy()
		test.change(now)
		if got := deploymentFacts(d) != deploymentFacts(now); got != test.want {
			t.Errorf("Deployment, %s: %t, want %t", name, got, test.want)
		}
	}
}
