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
			spec := desired.Deployment(fn, configured, "").Spec.Template.Spec
			if got := *spec.TerminationGracePeriodSeconds; got != test.grace {
				t.Errorf("the grace period is %d s, want %d", got, test.grace)
			}
			if drain := variable(spec.Containers[0].Env, "DRAIN_TIMEOUT"); drain != test.drain {
				t.Errorf("DRAIN_TIMEOUT is %q, want %q", drain, test.drain)
			}
		})
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
