package consumer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/consumer"
	"goless.io/trigger/internal/functionref"
)

// Omitted values of spec.resources have defaults that do not contradict the others.
func TestResources(t *testing.T) {
	memory := func(amount string) v1beta1.Amounts { return v1beta1.Amounts{Memory: new(resource.MustParse(amount))} }
	for name, test := range map[string]struct {
		asked           *v1beta1.Resources
		request, limit  string
		cpuLimit, wrong bool
	}{
		"None":         {nil, "32Mi", "256Mi", false, false},
		"Limit":        {&v1beta1.Resources{Limits: memory("1Gi")}, "32Mi", "1Gi", false, false},
		"LowLimit":     {&v1beta1.Resources{Limits: memory("16Mi")}, "16Mi", "16Mi", false, false},
		"Request":      {&v1beta1.Resources{Requests: memory("64Mi")}, "64Mi", "256Mi", false, false},
		"HighRequest":  {&v1beta1.Resources{Requests: memory("1Gi")}, "1Gi", "1Gi", false, false},
		"CPU":          {&v1beta1.Resources{Limits: v1beta1.Amounts{CPU: new(resource.MustParse("1"))}}, "32Mi", "256Mi", true, false},
		"Contradicted": {&v1beta1.Resources{Requests: memory("1Gi"), Limits: memory("512Mi")}, "", "", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			trigger := records()
			trigger.Spec.Resources = test.asked
			k := consumer.Kind[*v1alpha1.KafkaTrigger]{Program: consumer.Kafka}
			problem := k.Plan(trigger, consumer.Seen{Deployment: &appsv1.Deployment{}, Former: &appsv1.Deployment{}, Service: &corev1.Service{}}).Problem
			if invalid := problem.Reason == v1alpha1.ReasonInvalidSpec; invalid != test.wrong {
				t.Fatalf("the problem is %+v", problem)
			}
			if test.wrong {
				if want := `spec.resources.requests.memory: Invalid value: "1Gi": exceeds the limit of 512Mi`; problem.Message != want {
					t.Errorf("the message is %q, want %q as for a Function", problem.Message, want)
				}
				return
			}
			checkResources(t, trigger, test.request, test.limit, test.cpuLimit)
		})
	}
}

// Amounts are rounded up as the API server does when it stores them, so that the Deployment reaches
// its desired state.
func TestResourcesAreRounded(t *testing.T) {
	trigger := records()
	trigger.Spec.Resources = &v1beta1.Resources{Requests: v1beta1.Amounts{CPU: new(resource.MustParse("0.0625"))}}
	program, err := consumer.Kafka(trigger)
	if err != nil {
		t.Fatal(err)
	}
	d := consumer.Deployment(trigger, program, functionref.Target{Timeout: time.Minute}, "http://checkout.shop.svc:8080", "image")
	if cpu := (*d.Spec.Template.Spec.Containers[0].Resources.Requests)[corev1.ResourceCPU]; cpu.String() != "63m" {
		t.Errorf("the request is %s, want 63m", cpu.String())
	}
}

func checkResources(t *testing.T, trigger *v1alpha1.KafkaTrigger, request, limit string, cpuLimit bool) {
	t.Helper()
	program, err := consumer.Kafka(trigger)
	if err != nil {
		t.Fatal(err)
	}
	d := consumer.Deployment(trigger, program, functionref.Target{Timeout: time.Minute}, "http://checkout.shop.svc:8080", "image")
	got := d.Spec.Template.Spec.Containers[0].Resources
	gotRequest, gotLimit := (*got.Requests)[corev1.ResourceMemory], (*got.Limits)[corev1.ResourceMemory]
	if diff := cmp.Diff([]string{request, limit}, []string{gotRequest.String(), gotLimit.String()}); diff != "" {
		t.Errorf("memory (-want +got):\n%s", diff)
	}
	if _, ok := (*got.Limits)[corev1.ResourceCPU]; ok != cpuLimit {
		t.Errorf("the limits are %v", *got.Limits)
	}
}
