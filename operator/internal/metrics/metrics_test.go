package metrics_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/metrics"
)

// TestMetrics checks the metrics of two Functions, one of which does not compile.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := metrics.New(registry)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	good := function("good")
	m.Changed(good, start)
	m.Changed(good, start.Add(time.Second)) // the same change, seen again
	m.RolledOut()
	m.RecordAdmission(metrics.Denied)
	report(m, good, start, "Building", "Unknown", "False")
	report(m, good, start.Add(2*time.Second), "Built", "True", "False")
	report(m, good, start.Add(3*time.Second), "Built", "True", "True")
	m.Changed(good, start.Add(4*time.Second)) // nothing has changed
	report(m, good, start.Add(5*time.Second), "Built", "True", "True")

	bad := function("bad")
	m.Changed(bad, start)
	report(m, bad, start, "CompileFailed", "False", "False")
	report(m, bad, start, "CompileFailed", "False", "False")
	refused := function("refused")
	report(m, refused, start, "InvalidSource", "False", "False")

	working := make(chan struct{})
	list := func(_ context.Context, all *v1beta1.FunctionList) error {
		all.Items = []v1beta1.Function{*good, *bad, *refused}
		return nil
	}
	registry.MustRegister(metrics.BuildInfo("goless_operator_build_info", "v1.2.3", "0123"), metrics.Functions{List: list, Working: working})
	if text := exposed(t, registry); strings.Contains(text, "goless_functions") {
		t.Errorf("a replica that is not the leader counts Functions:\n%s", text)
	}
	close(working)
	text := exposed(t, registry)
	for _, want := range []string{
		`goless_build_duration_seconds_bucket{reason="Built",le="0.5"} 1`,
		`goless_build_duration_seconds_count{reason="Built"} 1`,
		`goless_builds_total{reason="Built"} 1`,
		`goless_builds_total{reason="CompileFailed"} 1`,
		`goless_function_ready_duration_seconds_count 1`,
		`goless_function_ready_duration_seconds_sum 3`,
		`goless_rollouts_total 1`,
		`goless_operator_build_info{commit="0123",go_version="` + runtime.Version() + `",version="v1.2.3"} 1`,
		`goless_admissions_total{answer="Allowed"} 0`,
		`goless_admissions_total{answer="Refused"} 1`,
		`goless_functions{condition="Ready",reason="Any",status="True"} 1`,
		`goless_functions{condition="Ready",reason="Any",status="False"} 2`,
		`goless_functions{condition="Built",reason="CompileFailed",status="False"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing %s in\n%s", want, text)
		}
	}
	if strings.Contains(text, `goless_builds_total{reason="InvalidSource"}`) {
		t.Error("a rejected source counts as a build")
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if diff := cmp.Diff([]promlint.Problem(nil), problems); err != nil || diff != "" {
		t.Errorf("promlint: %v %s", err, diff)
	}
}

func function(name string) *v1beta1.Function {
	fn := &v1beta1.Function{}
	fn.Name, fn.Namespace, fn.UID, fn.Generation = name, "default", types.UID(name), 1
	fn.Status.ObservedGeneration = -1
	return fn
}

// report updates the status of a Function as the operator does.
func report(m *metrics.Metrics, fn *v1beta1.Function, now time.Time, built string, is, ready metav1.ConditionStatus) {
	before := *fn.Status.DeepCopy()
	fn.Status = v1beta1.FunctionStatus{
		ObservedGeneration: fn.Generation,
		LatestRevision:     "0123456789",
		Conditions: []metav1.Condition{
			{Type: v1beta1.ConditionBuilt, Reason: built, Status: is},
			{Type: v1beta1.ConditionReady, Reason: "Any", Status: ready},
		},
		Build: &v1beta1.BuildStatus{Revision: "0123456789", Duration: "412ms"},
	}
	m.Reported(fn, before, now)
}

func exposed(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}
