package desired_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

// Resources of the Function override those of the settings, which override the defaults.
func TestResources(t *testing.T) {
	for name, test := range map[string]struct {
		asked v1beta1.Resources
		set   settings.Function
		want  string // cpu, memory, storage: request/limit
	}{
		"Default":       {want: "50m/0 32Mi/256Mi 16Mi/1Gi"},
		"Asked":         {asked: v1beta1.Resources{Requests: v1beta1.Amounts{CPU: quantity("1")}, Limits: v1beta1.Amounts{CPU: quantity("2")}}, want: "1/2 32Mi/256Mi 16Mi/1Gi"},
		"LowLimit":      {asked: v1beta1.Resources{Limits: v1beta1.Amounts{Memory: quantity("16Mi")}}, want: "50m/0 16Mi/16Mi 16Mi/1Gi"},
		"HighRequest":   {asked: v1beta1.Resources{Requests: v1beta1.Amounts{Memory: quantity("1Gi")}}, want: "50m/0 1Gi/1Gi 16Mi/1Gi"},
		"TooExact":      {asked: v1beta1.Resources{Requests: v1beta1.Amounts{CPU: quantity("0.0001")}}, want: "1m/0 32Mi/256Mi 16Mi/1Gi"},
		"Configured":    {set: settings.Function{Resources: v1beta1.Resources{Limits: v1beta1.Amounts{Memory: quantity("512Mi")}}}, want: "50m/0 32Mi/512Mi 16Mi/1Gi"},
		"TooMuch":       {asked: v1beta1.Resources{Requests: v1beta1.Amounts{CPU: quantity("9")}, Limits: v1beta1.Amounts{Memory: quantity("8Gi")}}, want: "4/0 32Mi/4Gi 16Mi/1Gi"},
		"Lifted":        {asked: v1beta1.Resources{Limits: v1beta1.Amounts{Memory: quantity("8Gi")}}, set: settings.Function{MaxResources: v1beta1.Amounts{Memory: quantity("1P")}}, want: "50m/0 32Mi/8Gi 16Mi/1Gi"},
		"Ceiling":       {set: settings.Function{MaxResources: v1beta1.Amounts{CPU: quantity("3")}}, want: "50m/3 32Mi/256Mi 16Mi/1Gi"},
		"LowCeiling":    {set: settings.Function{MaxResources: v1beta1.Amounts{Memory: quantity("8Mi")}}, want: "50m/0 8Mi/8Mi 16Mi/1Gi"},
		"BeyondCeiling": {asked: v1beta1.Resources{Requests: v1beta1.Amounts{Memory: quantity("1Gi")}}, set: settings.Function{MaxResources: v1beta1.Amounts{Memory: quantity("512Mi")}}, want: "50m/0 512Mi/512Mi 16Mi/1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(func(fn *v1beta1.Function) { fn.Spec.Resources = &test.asked })
			got := desired.Deployment(fn, settings.Settings{Function: test.set}, "", nil).Spec.Template.Spec.Containers[0].Resources
			text := ""
			for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage"} {
				request, limit := (*got.Requests)[name], (*got.Limits)[name]
				text += " " + request.String() + "/" + limit.String()
			}
			if diff := cmp.Diff(" "+test.want, text); diff != "" {
				t.Error(diff)
			}
		})
	}
}
