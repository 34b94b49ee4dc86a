package desired_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"goless.io/builder/buildapi"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

func TestStrategy(t *testing.T) {
	shared := func(fn *v1beta1.Function) { fn.Spec.Build = &v1beta1.BuildSpec{Strategy: v1beta1.BuildShared} }
	modules := func(fn *v1beta1.Function) {
		everyField(fn)
		shared(fn)
	}
	byDefault := settings.Settings{Build: settings.Build{Strategy: v1beta1.BuildInPod}}
	for name, test := range map[string]struct {
		change   func(*v1beta1.Function)
		settings settings.Settings
		want     v1beta1.BuildStrategy
	}{
		"Default":          {func(*v1beta1.Function) {}, settings.Settings{}, v1beta1.BuildShared},
		"OfCluster":        {func(*v1beta1.Function) {}, byDefault, v1beta1.BuildInPod},
		"OfFunction":       {func(fn *v1beta1.Function) { fn.Spec.Build = &v1beta1.BuildSpec{Strategy: v1beta1.BuildInPod} }, settings.Settings{}, v1beta1.BuildInPod},
		"Against":          {shared, byDefault, v1beta1.BuildShared},
		"Modules":          {modules, settings.Settings{}, v1beta1.BuildShared},
		"WithCredentials":  {modules, configured, v1beta1.BuildInPod},
		"OthersOfThatKind": {shared, configured, v1beta1.BuildShared},
	} {
		t.Run(name, func(t *testing.T) {
			if got := desired.Strategy(function(test.change), test.settings); got != test.want {
				t.Errorf("got %s", got)
			}
		})
	}
}

// An order contains the source, the module settings and the limits of the init container.
func TestOrder(t *testing.T) {
	fn := function(everyField)
	want := buildapi.Order{
		Namespace: "default", Source: fn.Spec.Function, Timeout: fn.Spec.Build.Timeout.Duration, Memory: 2 << 30,
		Environment: map[string]string{"GOPROXY": "https://modules.example"},
	}
	if diff := cmp.Diff(want, desired.Order(fn, configured, false)); diff != "" {
		t.Error(diff)
	}
	want.Tests = true
	if diff := cmp.Diff(want, desired.Order(fn, configured, true)); diff != "" {
		t.Error(diff)
	}
	fn = function(func(*v1beta1.Function) {})
	want = buildapi.Order{Namespace: "default", Source: fn.Spec.Function, Memory: 768 << 20}
	if diff := cmp.Diff(want, desired.Order(fn, configured, false)); diff != "" {
		t.Error(diff)
	}
	if err := desired.Order(function(everyField), configured, false).Validate(); err != nil {
		t.Error(err)
	}
}

// BinaryFor reads the binary of the pods from the fields that the operator owns, and ignores it if
// another client has changed them.
func TestBinaryFor(t *testing.T) {
	fn := function(everyField)
	whole := func() *appsv1ac.DeploymentApplyConfiguration { return desired.Deployment(fn, configured, "", binary) }
	if diff := cmp.Diff(binary, desired.BinaryFor(whole(), fn)); diff != "" {
		t.Error(diff)
	}
	if got := desired.BinaryFor(whole(), function(func(fn *v1beta1.Function) { fn.Spec.Function += "\n" })); got != nil {
		t.Errorf("another source has the binary %v", got)
	}
	if got := desired.BinaryFor(desired.Deployment(fn, configured, "", nil), fn); got != nil {
		t.Errorf("a pod that compiles has the binary %v", got)
	}
	foreign := whole()
	env := foreign.Spec.Template.Spec.Containers[0].Env
	for i := range env {
		if strings.HasPrefix(*env[i].Name, "FUNCTION_BINARY") {
			env[i].Value = nil
		}
	}
	for _, owned := range []*appsv1ac.DeploymentApplyConfiguration{nil, {}, foreign} {
		if got := desired.BinaryFor(owned, fn); got != nil {
			t.Errorf("%v has the binary %v", owned, got)
		}
	}
}
