package plan_test

import (
	"testing"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// A class, or a change of it, is applied when the staged rollout admits the function. Changes to
// the spec are applied at once. A function whose class was removed keeps the values of the class
// until it is rolled out again.
func TestClasses(t *testing.T) {
	old, now := &v1beta1.FunctionClassSpec{PriorityClassName: "old"}, &v1beta1.FunctionClassSpec{PriorityClassName: "now"}
	edit := func(fn *v1beta1.Function) { fn.Spec.Concurrency = 1 }
	unbuild := func(fn *v1beta1.Function) { fn.Status.Conditions = nil }
	for name, test := range map[string]struct {
		before, after *v1beta1.FunctionClassSpec
		waits         bool
		change        func(*v1beta1.Function)
		rollout       settings.Rollout
		want          string // the PriorityClass of the pods
	}{
		"Same":           {before: now, after: now, want: "now"},
		"Changed":        {before: old, after: now, want: "now"},
		"Waiting":        {before: old, after: now, waits: true, want: "old"},
		"WaitingAlways":  {before: old, after: now, waits: true, rollout: settings.Always, want: "old"},
		"WaitingUnbuilt": {before: old, after: now, waits: true, change: unbuild, want: "old"},
		"First":          {after: now, want: "now"},
		"WaitingFirst":   {after: now, waits: true},
		"Edited":         {before: old, after: now, waits: true, change: edit, want: "now"},
		"Lost":           {before: old, want: "old"},
		"LostAndAlways":  {before: old, rollout: settings.Always},
		"LostAndEdited":  {before: old, change: edit},
		"NeverHad":       {},
		"OtherNamespace": {before: old, after: &v1beta1.FunctionClassSpec{PriorityClassName: "old"}, want: "old"},
	} {
		for strategy, binary := range map[string]*desired.Binary{"InPod": nil, "Shared": binary} {
			t.Run(name+strategy, func(t *testing.T) {
				s := map[string]settings.Settings{"InPod": inPod, "Shared": shared}[strategy]
				s.Rollout, s.Class = test.rollout, test.before
				scene := begin(t, s, first).serving(binary, 1)
				scene.settings.Class, scene.seen.AwaitsClass = test.after, test.waits
				if test.change != nil {
					scene.with(test.change)
				}
				got, made := priority(scene.plan().Deployment)
				if got != test.want || (made == "") != (test.want == "") {
					t.Errorf("PriorityClass %q, class hash %q, want %q", got, made, test.want)
				}
			})
		}
	}
}

// priority returns the PriorityClass of a Deployment's pods and the hash of their FunctionClass.
func priority(d *appsv1ac.DeploymentApplyConfiguration) (name, class string) {
	if p := d.Spec.Template.Spec.PriorityClassName; p != nil {
		name = *p
	}
	return name, d.Labels[desired.ClassLabel]
}
