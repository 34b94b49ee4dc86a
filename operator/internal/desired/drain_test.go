package desired_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// The kubelet kills nobody who still has the time that was promised: 5 s until
// the endpoints have settled, the requests', and 5 s more.
func TestGracePeriod(t *testing.T) {
	for name, test := range map[string]struct {
		timeout string
		env     map[string]string
		drain   string // the variable DRAIN_TIMEOUT
		grace   int64
	}{
		"Default":   {drain: "1m0s", grace: 70},
		"NoTimeout": {timeout: "0s", grace: 30},
		"Short":     {timeout: "1s", grace: 30},
		"Long":      {timeout: "10m", drain: "10m0s", grace: 610},
		"Fraction":  {timeout: "20500ms", drain: "20.5s", grace: 31},
		"Own":       {env: map[string]string{"DRAIN_DELAY": "0s", "DRAIN_TIMEOUT": "100ms"}, drain: "100ms", grace: 6},
		"OwnLong":   {env: map[string]string{"DRAIN_TIMEOUT": "2h"}, drain: "2h", grace: 3610},
		"OwnMade":   {env: map[string]string{"DRAIN_TIMEOUT": "$(SECONDS)s"}, drain: "$(SECONDS)s", grace: 3610},
		"OwnWrong":  {timeout: "0s", env: map[string]string{"DRAIN_DELAY": "soon", "DRAIN_TIMEOUT": "-1s"}, drain: "-1s", grace: 30},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(func(fn *v1beta1.Function) {
				if timeout, err := time.ParseDuration(test.timeout); err == nil {
					fn.Spec.Timeout = &metav1.Duration{Duration: timeout}
				}
				for name, value := range test.env {
					fn.Spec.Env = append(fn.Spec.Env, v1beta1.EnvVar{Name: name, Value: value})
				}
			})
			spec := desired.Deployment(fn, configured, "", nil).Spec.Template.Spec
			if got := *spec.TerminationGracePeriodSeconds; got != test.grace {
				t.Errorf("the grace period is %d s, want %d", got, test.grace)
			}
			if drain := variable(spec.Containers[0].Env, "DRAIN_TIMEOUT"); drain != test.drain {
				t.Errorf("DRAIN_TIMEOUT is %q, want %q", drain, test.drain)
			}
		})
	}
}

// What envFrom might set is set by the operator, and what is kept elsewhere may be
// as long as anything.
func TestGracePeriodOfUnknown(t *testing.T) {
	fn := function(func(fn *v1beta1.Function) {
		fn.Spec.EnvFrom = []v1beta1.EnvFromSource{{Prefix: "DRAIN_", ConfigMapRef: &v1beta1.ObjectRef{Name: "c"}}}
	})
	spec := desired.Deployment(fn, configured, "", nil).Spec.Template.Spec
	delay, drain := variable(spec.Containers[0].Env, "DRAIN_DELAY"), variable(spec.Containers[0].Env, "DRAIN_TIMEOUT")
	if grace := *spec.TerminationGracePeriodSeconds; delay != "5s" || drain != "1m0s" || grace != 70 {
		t.Errorf("with envFrom the pod drains for %s and %s and has %d s", delay, drain, grace)
	}
	fn.Spec.Env = []v1beta1.EnvVar{{Name: "DRAIN_TIMEOUT", ValueFrom: &v1beta1.EnvVarSource{ConfigMapKeyRef: &v1beta1.KeyRef{Name: "c", Key: "k"}}}}
	spec = desired.Deployment(fn, configured, "", nil).Spec.Template.Spec
	if grace := *spec.TerminationGracePeriodSeconds; grace != 3610 {
		t.Errorf("with a time from a ConfigMap the pod has %d s, want an hour and what is added", grace)
	}
}

// variable is the value of a variable, which must be there at most once.
func variable(all []corev1ac.EnvVarApplyConfiguration, name string) string {
	value := ""
	for _, v := range all {
		if *v.Name == name {
			value += *v.Value
		}
	}
	return value
}
