package class

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
)

func TestNext(t *testing.T) {
	many := func(n int, as member) (all []member) {
		for i := range n {
			as.name = types.NamespacedName{Namespace: "team", Name: fmt.Sprintf("f%03d", n-i)}
			all = append(all, as)
		}
		return all
	}
	behind, done, under := member{ready: true}, member{ready: true, updated: true}, member{updated: true, rolling: true}
	for name, test := range map[string]struct {
		members  []member
		want     progress
		admitted int
	}{
		"None":          {nil, progress{}, 0},
		"Few":           {many(3, behind), progress{3, 0, 0}, 1},
		"FewUnderWay":   {append(many(2, behind), many(1, under)...), progress{3, 1, 1}, 0},
		"FewDone":       {append(many(2, behind), many(1, done)...), progress{3, 1, 0}, 1},
		"Tenth":         {many(50, behind), progress{50, 0, 0}, 5},
		"RestOfATenth":  {append(many(47, behind), many(3, under)...), progress{50, 3, 3}, 2},
		"More":          {append(many(40, behind), many(10, under)...), progress{50, 10, 10}, 0}, // there were more functions before
		"Most":          {many(1000, behind), progress{1000, 0, 0}, 20},
		"NotReady":      {many(50, member{}), progress{50, 0, 0}, 0}, // they do not wait
		"All":           {many(50, done), progress{50, 50, 0}, 0},
		"FewerThanFree": {append(many(1, behind), many(49, done)...), progress{50, 49, 0}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, admitted := next(test.members)
			if got != test.want || len(admitted) != test.admitted {
				t.Errorf("%+v with %d admitted, want %+v with %d", got, len(admitted), test.want, test.admitted)
			}
		})
	}
	// Those that were admitted stay so until they are on their way.
	_, admitted := next(many(50, behind))
	if diff := cmp.Diff(types.NamespacedName{Namespace: "team", Name: "f001"}, admitted[0]); diff != "" {
		t.Error(diff)
	}
}

// The cache lists classes in any order, and the default one must not depend on that.
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

func TestRolling(t *testing.T) {
	whole := appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}}
	whole.Generation = 7
	whole.Status = appsv1.DeploymentStatus{ObservedGeneration: 7, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	givenUp := []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
	over := []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"}}
	for name, test := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"Whole":       {func(*appsv1.Deployment) {}, false},
		"Unseen":      {func(d *appsv1.Deployment) { d.Generation = 8 }, true},
		"UnseenAgain": {func(d *appsv1.Deployment) { d.Generation, d.Status.Conditions = 8, givenUp }, true}, // of the template before
		"None":        {func(d *appsv1.Deployment) { d.Status.Replicas, d.Status.UpdatedReplicas = 2, 0 }, true},
		"Surge":       {func(d *appsv1.Deployment) { d.Status.Replicas = 3 }, true},
		"Unavailable": {func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 1 }, true},
		"GivenUp":     {func(d *appsv1.Deployment) { d.Status.AvailableReplicas, d.Status.Conditions = 1, givenUp }, false},
		"Scaled":      {func(d *appsv1.Deployment) { d.Spec.Replicas, d.Status.Conditions = new(int32(3)), over }, false},
		"Restarted":   {func(d *appsv1.Deployment) { d.Status.AvailableReplicas, d.Status.Conditions = 1, over }, false},
		"RolledBack":  {func(d *appsv1.Deployment) { d.Status.UpdatedReplicas, d.Status.Conditions = 0, over }, true},
		"UnseenOver":  {func(d *appsv1.Deployment) { d.Generation, d.Status.Conditions = 8, over }, true}, // of the template before
		"Stopped": {func(d *appsv1.Deployment) {
			d.Spec.Replicas, d.Status = new(int32(0)), appsv1.DeploymentStatus{ObservedGeneration: 7}
		}, false},
	} {
		d := whole.DeepCopy()
		test.change(d)
		if got := rolling(d); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
