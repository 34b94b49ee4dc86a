package desired_test

import (
	"testing"
	"time"

	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// An operator with other images keeps the template of the previous operator while the spec is the
// same and no other client has changed the template. Mutating policies of the cluster, which change
// it while the operator writes it, do not count.
func TestKept(t *testing.T) {
	next := configured
	next.Images.Builder, next.Images.Function = "builder-2", "launch-2"
	next.Build.Modules.GoProxy, next.LostNodeTimeout.Duration = "off", time.Hour

	same := func(*v1beta1.Function) {}
	intact := func(*appsv1ac.DeploymentApplyConfiguration) {}
	for name, test := range map[string]struct {
		change func(*v1beta1.Function)                      // by the user, afterwards
		tamper func(*appsv1ac.DeploymentApplyConfiguration) // by another client
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
		"Rewritten": {change: same, kept: true, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) {
			d.Spec.Template.Spec.Containers[0].WithImage("mirror.example/launch-1").WithImagePullPolicy("Always")
		}},
		"Tolerated": {change: same, kept: true, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) {
			d.Spec.Template.Spec.WithTolerations(corev1ac.Toleration().WithKey("gpu")) // by a policy
		}},
		"ForeignTolerations": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) {
			d.Spec.Template.Spec.Tolerations = nil // owned by another client
		}},
		"ForeignImage": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) {
			d.Spec.Template.Spec.Containers[0].Image = nil // owned by another client
		}},
		"ForeignMount": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) {
			d.Spec.Template.Spec.Containers[0].VolumeMounts = d.Spec.Template.Spec.Containers[0].VolumeMounts[1:]
		}},
		"LessOwned":  {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Template.Spec.SecurityContext = nil }},
		"NoTemplate": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Template = nil }},
		"NoLabels":   {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.Template.Labels = nil }},
		"NoMetadata": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) { d.ObjectMetaApplyConfiguration = nil }},
		"Stripped": {change: same, tamper: func(d *appsv1ac.DeploymentApplyConfiguration) {
			delete(d.Labels, desired.SpecHashLabel)
			delete(d.Spec.Template.Labels, desired.TemplateLabel)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(everyField)
			owned := desired.Deployment(fn, configured, "", nil)
			test.tamper(owned)
			test.change(fn)
			want := desired.Deployment(fn, next, "", nil)
			got, kept := desired.KeepTemplateOfSameSpec(want, owned)
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

// isKept checks that a Deployment has the previous pod template and the number of replicas of the
// spec.
func isKept(t *testing.T, got *appsv1ac.DeploymentApplyConfiguration, fn *v1beta1.Function) {
	t.Helper()
	if image := *got.Spec.Template.Spec.InitContainers[0].Image; image == "builder-2" {
		t.Errorf("the builder is %s", image)
	}
	if *got.Spec.Replicas != fn.WantedReplicas() {
		t.Errorf("%d replicas", *got.Spec.Replicas)
	}
}
