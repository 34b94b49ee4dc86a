package settings_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// Fields of the class override those of the file.
func TestOf(t *testing.T) {
	amount := func(text string) *resource.Quantity { return new(resource.MustParse(text)) }
	file := settings.Settings{
		Rollout: settings.Always,
		Function: settings.Function{
			Resources:    v1beta1.Resources{Requests: v1beta1.Amounts{CPU: amount("1"), Memory: amount("1Mi")}},
			MaxResources: v1beta1.Amounts{Memory: amount("2Gi")},
		},
		Build: settings.Build{Strategy: v1beta1.BuildShared, Modules: v1beta1.Modules{GoProxy: "off", GoPrivate: "example.com"}},
	}
	class := &v1beta1.FunctionClass{Spec: v1beta1.FunctionClassSpec{
		Resources:    v1beta1.Resources{Requests: v1beta1.Amounts{CPU: amount("2")}},
		MaxResources: v1beta1.Amounts{CPU: amount("8")},
		Build:        v1beta1.ClassBuild{Strategy: v1beta1.BuildInPod, Modules: &v1beta1.Modules{GoProxy: "direct"}},
	}}
	want := file
	want.Class = &class.Spec
	want.Function.Resources.Requests.CPU = amount("2")
	want.Function.MaxResources.CPU = amount("8")
	want.Build.Strategy, want.Build.Modules = v1beta1.BuildInPod, v1beta1.Modules{GoProxy: "direct"}
	if diff := cmp.Diff(want, file.Of(class)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(file, file.Of(nil)); diff != "" {
		t.Errorf("without a class: %s", diff)
	}
}
