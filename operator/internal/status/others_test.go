package status_test

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
	"goless.io/operator/internal/validation"
)

// If a HorizontalPodAutoscaler of another owner sets the number of replicas, the status does not
// report the number in the spec.
func TestReplicasOfAnotherAutoscaler(t *testing.T) {
	conflict := validation.Problem{Reason: "AutoscalerConflict", Message: "scaled by another"}
	rivalled := func(s status.Seen) status.Seen {
		s.Plan.AutoscalerConflict, s.Outcome.Degraded = &conflict, []validation.Problem{conflict}
		return s
	}
	fn := function(1)
	got := status.Of(fn, rivalled(seen(rolledOut(deployment(3, 3, latest)), sets(latest))))
	expect(t, got, "Serving", "", "SourceValid Built Available Ready Degraded", latest)
	if degraded := meta.FindStatusCondition(got.Conditions, "Degraded"); got.ReplicaSummary != "3/3" || degraded.Message != conflict.Message {
		t.Errorf("the replicas are %s, Degraded is %+v", got.ReplicaSummary, degraded)
	}
	fn.Status = got
	got = status.Of(fn, rivalled(seen(rolledOut(deployment(0, 0, latest)), nil)))
	expect(t, got, "Building", "the Deployment is scaled to 0 replicas by another controller: scaled by another", "SourceValid Built Reconciling Degraded", "")
	fn.Spec.Replicas = new(int32(0))
	got = status.Of(fn, rivalled(seen(rolledOut(deployment(0, 0, latest)), nil)))
	expect(t, got, "Stopped", "", "SourceValid Built Ready Degraded", "")
}

// foreign adds a Service of another owner that selects the replicas.
func foreign(s status.Seen) status.Seen {
	s.Outcome.ForeignService = &corev1.Service{Spec: corev1.ServiceSpec{Selector: map[string]string{desired.FunctionLabel: "f"}}}
	s.Outcome.ForeignService.Name = "f"
	return s
}

// If objects of another owner answer the requests, it is unknown whether the function is available.
// Objects that do not answer have no effect.
func TestAnsweredByOthers(t *testing.T) {
	theirs := func(ready int32) *appsv1.Deployment {
		d := deployment(1, ready, old)
		d.Name, d.Spec.Template.Labels[desired.FunctionLabel] = "f", "f"
		return d
	}
	ours := func(selector map[string]string) *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Selector: selector}}
	}
	both := map[string]string{desired.FunctionLabel: "f"}
	for name, test := range map[string]struct {
		seen   func(*status.Seen)
		status metav1.ConditionStatus
		says   string
	}{
		"Deployment": {func(s *status.Seen) { s.Outcome.ForeignDeployment = theirs(1); s.Outcome.Service = ours(both) }, "Unknown", `through Deployment "f", which`},
		"Both":       {func(s *status.Seen) { s.Outcome.ForeignDeployment = theirs(1); *s = foreign(conflict(*s)) }, "Unknown", `through Deployment "f" and Service "f", which`},
		"Service":    {func(s *status.Seen) { s.Outcome.Deployment = theirs(1); *s = foreign(conflict(*s)) }, "Unknown", `through Service "f", which`},
		"Unready":    {func(s *status.Seen) { s.Outcome.ForeignDeployment = theirs(0); s.Outcome.Service = ours(both) }, "False", "no replica is ready"},
		"Elsewhere": {func(s *status.Seen) {
			s.Outcome.ForeignDeployment = deployment(1, 1, old)
			s.Outcome.Service = ours(both)
		}, "False", "no replica is ready"},
		"NoSelector": {func(s *status.Seen) { s.Outcome.ForeignDeployment = theirs(1); s.Outcome.Service = ours(nil) }, "False", "no replica is ready"},
		"NoService":  {func(s *status.Seen) { s.Outcome.ForeignDeployment = theirs(1); *s = conflict(*s) }, "False", "no replica is ready"},
	} {
		s := seen(nil, nil)
		test.seen(&s)
		s.Outcome.Problem = &validation.Problem{Reason: "NotOwned", Message: "not ours"}
		got := meta.FindStatusCondition(status.Of(function(1), s).Conditions, "Available")
		if got.Status != test.status || !strings.Contains(got.Message, test.says) {
			t.Errorf("%s: Available is %s: %q, want %s: %q", name, got.Status, got.Message, test.status, test.says)
		}
	}
}
