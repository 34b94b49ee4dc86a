package desired_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// Changes of the Function that do not affect its pods, and changes of the settings, are the same spec.
// A Deployment with the same spec can keep its template, and gets the other changes.
func TestSameSpec(t *testing.T) {
	next := configured
	next.Images.Builder, next.Images.Function = "builder-2", "launch-2"
	next.Build.Modules.GoProxy, next.LostNodeTimeout.Duration = "off", time.Hour
	for name, test := range map[string]struct {
		change func(*v1beta1.Function)
		same   bool
	}{
		"Unchanged":   {change: func(*v1beta1.Function) {}, same: true},
		"Scaled":      {change: func(fn *v1beta1.Function) { fn.Spec.Replicas = new(int32(5)) }, same: true},
		"Moved":       {change: func(fn *v1beta1.Function) { fn.Spec.Service = "other" }, same: true},
		"Labelled":    {change: func(fn *v1beta1.Function) { fn.Labels["a"] = "b" }, same: true},
		"Source":      {change: func(fn *v1beta1.Function) { fn.Spec.Function += "\n" }},
		"Environment": {change: func(fn *v1beta1.Function) { fn.Spec.Env = fn.Spec.Env[1:] }},
		"Asked":       {change: func(fn *v1beta1.Function) { fn.Annotations["goless.io/upgrade"] = "2" }},
		"PodLabel":    {change: func(fn *v1beta1.Function) { fn.Labels = map[string]string{"pod.goless.io/team": "red"} }},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(everyField)
			version := desired.Deployment(fn, configured, "", nil)
			test.change(fn)
			want := desired.Deployment(fn, next, "", nil)
			if got := desired.SameSpec(want, version); got != test.same {
				t.Fatalf("same: %t", got)
			}
			isKept(t, desired.Keep(want, version), version, fn)
			if image := *want.Spec.Template.Spec.InitContainers[0].Image; image != "builder-2" {
				t.Errorf("want was changed: %s", image)
			}
		})
	}
}

// isKept checks that a Deployment has the template and the spec hash of an earlier version, and the
// number of replicas of the Function.
func isKept(t *testing.T, kept, version *appsv1ac.DeploymentApplyConfiguration, fn *v1beta1.Function) {
	t.Helper()
	if diff := cmp.Diff(version.Spec.Template, kept.Spec.Template); diff != "" {
		t.Errorf("the template has changed:\n%s", diff)
	}
	if *kept.Spec.Replicas != fn.WantedReplicas() {
		t.Errorf("%d replicas", *kept.Spec.Replicas)
	}
	if !desired.SameSpec(kept, version) {
		t.Error("the kept template passes for that of the new spec")
	}
}

// What other clients change in a template is detected, unlike what a mutating policy of the cluster
// changes while the operator applies it.
func TestIsIntact(t *testing.T) {
	type deployment = appsv1ac.DeploymentApplyConfiguration
	for name, test := range map[string]struct {
		change func(*deployment)
		intact bool
	}{
		"Unchanged": {intact: true, change: func(*deployment) {}},
		"Rewritten": {intact: true, change: func(d *deployment) {
			d.Spec.Template.Spec.Containers[0].WithImage("mirror.example/launch-1").WithImagePullPolicy("Always")
		}},
		"Tolerated":          {intact: true, change: func(d *deployment) { d.Spec.Template.Spec.WithTolerations(corev1ac.Toleration().WithKey("gpu")) }},
		"ForeignTolerations": {change: func(d *deployment) { d.Spec.Template.Spec.Tolerations = nil }},
		"ForeignMount": {change: func(d *deployment) {
			d.Spec.Template.Spec.Containers[0].VolumeMounts = d.Spec.Template.Spec.Containers[0].VolumeMounts[1:]
		}},
		"ForeignSecurity": {change: func(d *deployment) { d.Spec.Template.Spec.SecurityContext = nil }},
		"ForeignImage":    {change: func(d *deployment) { d.Spec.Template.Spec.Containers[0].Image = nil }},
		"ForeignHash":     {change: func(d *deployment) { delete(d.Spec.Template.Labels, desired.TemplateLabel) }},
		"NoTemplate":      {change: func(d *deployment) { d.Spec.Template = nil }},
		"NoPod":           {change: func(d *deployment) { d.Spec.Template.Spec = nil }},
		"NoLabels":        {change: func(d *deployment) { d.Spec.Template.Labels = nil }},
		"NoMetadata":      {change: func(d *deployment) { d.ObjectMetaApplyConfiguration = nil }},
		"NoSpec":          {change: func(d *deployment) { d.Spec = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			owned := desired.Deployment(function(everyField), configured, "", nil)
			test.change(owned)
			if got := desired.IsIntact(owned); got != test.intact {
				t.Errorf("intact: %t", got)
			}
		})
	}
	if desired.IsIntact(nil) {
		t.Error("a missing Deployment is intact")
	}
}
