package desired_test

import (
	"cmp"
	"fmt"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// The grace period of a pod covers 15 s until all nodes know that its endpoint is removed, the time
// to drain requests, and 5 s more. Both times are always set, so that envFrom cannot change them.
func TestGracePeriod(t *testing.T) {
	for name, test := range map[string]struct {
		timeout string
		seconds *int32 // spec.drainSeconds
		env     map[string]string
		drain   string // the variable DRAIN_TIMEOUT
		grace   int64
	}{
		"Default":   {drain: "1m0s", grace: 80},
		"NoTimeout": {timeout: "0s", drain: "20s", grace: 40},
		"Short":     {timeout: "1s", drain: "20s", grace: 40},
		"Long":      {timeout: "10m", drain: "10m0s", grace: 620},
		"Fraction":  {timeout: "20500ms", drain: "20.5s", grace: 41},
		"Seconds":   {timeout: "10m", seconds: new(int32(3)), drain: "3s", grace: 23},
		"AtOnce":    {seconds: new(int32(0)), drain: "0s", grace: 20},
		"Usual":     {seconds: new(int32(20)), drain: "20s", grace: 40}, // the runtime's default
		"Variable":  {env: map[string]string{"DRAIN_TIMEOUT": "100ms"}, drain: "100ms", grace: 3620},
		"Delay":     {seconds: new(int32(3)), env: map[string]string{"DRAIN_DELAY": "1m"}, drain: "3s", grace: 3608},
		"Both":      {env: map[string]string{"DRAIN_DELAY": "0s", "DRAIN_TIMEOUT": "$(SECONDS)s"}, drain: "$(SECONDS)s", grace: 7205},
	} {
		t.Run(name, func(t *testing.T) {
			fn := function(func(fn *v1beta1.Function) {
				fn.Spec.DrainSeconds = test.seconds
				if timeout, err := time.ParseDuration(test.timeout); err == nil {
					fn.Spec.Timeout = &metav1.Duration{Duration: timeout}
				}
				for name, value := range test.env {
					fn.Spec.Env = append(fn.Spec.Env, v1beta1.EnvVar{Name: name, Value: value})
				}
			})
			spec := desired.Deployment(fn, configured, "", nil).Spec.Template.Spec
			got := map[string]string{
				"grace":         fmt.Sprint(*spec.TerminationGracePeriodSeconds),
				"DRAIN_TIMEOUT": variable(spec.Containers[0].Env, "DRAIN_TIMEOUT"),
				"DRAIN_DELAY":   variable(spec.Containers[0].Env, "DRAIN_DELAY"),
			}
			want := map[string]string{
				"grace":         fmt.Sprint(test.grace),
				"DRAIN_TIMEOUT": test.drain,
				"DRAIN_DELAY":   cmp.Or(test.env["DRAIN_DELAY"], "15s"),
			}
			if !maps.Equal(got, want) {
				t.Errorf("drain settings %v, want %v", got, want)
			}
		})
	}
}

// A terminating pod serves for the configured endpointPropagation.
func TestEndpointPropagation(t *testing.T) {
	s := configured
	s.EndpointPropagation = metav1.Duration{Duration: 40 * time.Second}
	spec := desired.Deployment(function(func(*v1beta1.Function) {}), s, "", nil).Spec.Template.Spec
	if got := variable(spec.Containers[0].Env, "DRAIN_DELAY"); got != "40s" || *spec.TerminationGracePeriodSeconds != 105 {
		t.Errorf("DRAIN_DELAY is %s, the grace period is %d s", got, *spec.TerminationGracePeriodSeconds)
	}
}

// variable returns the value of an environment variable, which must not occur twice.
func variable(all []corev1ac.EnvVarApplyConfiguration, name string) string {
	value := ""
	for _, v := range all {
		if *v.Name == name {
			value += *v.Value
		}
	}
	return value
}
