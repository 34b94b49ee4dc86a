package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// An operator with other images leaves the template of one before it alone, as
// long as the user wants the same, and nobody else has changed it.
func TestKept(t *testing.T) {
	next := configured
	next.Images.Builder, next.Images.Function = "builder-2", "launch-2"
	next.Build.Modules.GoProxy = "off"

	same := func(*v1beta1.Function) {}
	intact := func(*appsv1ac.DeploymentApplyConfiguration) {}
	for name, test := range map[string]struct {
		change func(*v1beta1.Function)                      // by the user, since
		tamper func(*appsv1ac.DeploymentApplyConfiguration) // by somebody else
		kept   bool
	}{
		"Unchanged":   {tamper: intact, change: same, kept: true},
		"Scaled":      {tamper: intact, change: func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(5)) }, kept: true},
		"Moved":       {tamper: intact, change: func(fn *v1beta1.Function) { fn.Spec.Service = "other" }, kept: true},
		"Labelled":    {tamper: intact, change: func(fn *v1beta1.Function) { fn.Labels["a"] = "b" }, kept: true},
		"Source":      {tamper: intact, change: func(fn *v1beta1.Function) { fn.Spec.Function += "\n" }},
		"Environment": {tamper: intact, change: func(fn *v1beta1.Function) { fn.Spec.Env = fn.Spec.Env[1:] }},
		"Asked":       {tamper: intact, change: func(fn *v1beta1.Function) { fn.Annotations["goless.io/upgrade"] = "2" }},
		"PodLabel":    {tamper: intact, change: func(fn *v1beta1.Function) { fn.Labels = map[string]string{"pod.goless.io/team": "red"} }},
		"ForeignImage": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) {
			d.Spec.Template.Spec.Containers[0].WithImage("evil")
		}},
		"LessOwned":  {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Template.Spec.SecurityContext = nil }},
		"NoTemplate": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Template = nil }},
		"NoLabels":   {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Template.Labels = nil }},
		"NoMetadata": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) { d.ObjectMetaApplyConfiguration = nil }},
		"Unhashed":   {change: same, tamper: unhashed, kept: true},
		"Stripped": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) {
			delete(d.Labels, desired.WantedLabel)
			delete(d.Spec.Template.Labels, desired.TemplateLabel)
		}},
		"UnhashedForeignImage": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) {
			unhashed(d)
			d.Spec.Template.Spec.Containers[0].Image = nil
		}},
		"UnhashedSource": {tamper: unhashed, change: func(fn *v1beta1.Function) { fn.Spec.Function += "\n" }},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(everyField)
			owned := desired.Deployment(fn, configured, "", nil)
			test.tamper(owned)
			test.change(fn)
			want := desired.Deployment(fn, next, "", nil)
			got, kept := desired.Kept(want, owned, true)
			if kept != test.kept {
				t.Fatalf("kept: %t", kept)
			}
			if kept {
				isKept(t, got, fn)
			}
			if image := *want.Spec.Template.Spec.InitContainers[0].Image; image != "builder-2" {
				t.Errorf("want was changed: %s", image)
			}
		})
	}
}

// isKept checks that a Deployment has the pods of before, as many as are wanted now.
func isKept(t *testing.T, got *appsv1ac.DeploymentApplyConfiguration, fn *v1beta1.Function) {
	t.Helper()
	if image := *got.Spec.Template.Spec.InitContainers[0].Image; image == "builder-2" {
		t.Errorf("the builder is %s", image)
	}
	if *got.Spec.Replicas != fn.WantedReplicas() {
		t.Errorf("%d replicas", *got.Spec.Replicas)
	}
}

// unhashed makes a Deployment what it was before there were hashes.
func unhashed(d *appsv1ac.DeploymentApplyConfiguration) {
	delete(d.Labels, desired.WantedLabel)
	delete(d.Spec.Template.Labels, desired.TemplateLabel)
	env := d.Spec.Template.Spec.Containers[0].Env
	for i := range env {
		if *env[i].Name == "REQUEST_TIMEOUT" {
			env[i].WithName("GOMEMLIMIT").WithValue("230MiB")
		}
	}
}

// What has no hash is kept as long as nobody changes it, and not kept by who has
// not looked at its Function before.
func TestKeptUnhashed(t *testing.T) {
	fn := function(everyField)
	want := desired.Deployment(fn, settings.Settings{Images: settings.Images{Builder: "builder-2"}}, "", nil)
	old := func() *appsv1ac.DeploymentApplyConfiguration {
		d := desired.Deployment(fn, configured, "", nil)
		unhashed(d)
		return d
	}
	if _, kept := desired.Kept(want, old(), false); kept {
		t.Error("a template that nobody knows is kept")
	}
	kept, _ := desired.Kept(want, old(), true)
	again, _ := desired.Kept(want, kept, true)
	if diff := cmp.Diff(kept, again); kept == nil || diff != "" {
		t.Errorf("the second look differs:\n%s", diff)
	}
	kept.Spec.Template.Spec.Containers[0].WithImage("evil")
	if _, kept := desired.Kept(want, kept, true); kept {
		t.Error("a template that somebody has changed is kept")
	}
}
