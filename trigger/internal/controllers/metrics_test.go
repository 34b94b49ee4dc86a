package controllers_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/controllers"
)

// The triggers of each kind are counted by their conditions.
func TestMetrics(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	cron, http := cronTrigger(namespace), httpTrigger(t)
	create(t, cron)
	create(t, http)
	await(t, cron, v1alpha1.ConditionReady, v1alpha1.ReasonFunctionNotFound)
	await(t, http, v1alpha1.ConditionReady, v1alpha1.ReasonReady)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(controllers.Triggers{Reader: mgr.GetClient(), Working: mgr.Elected()})
	for kind, reason := range map[string]string{"CronTrigger": v1alpha1.ReasonFunctionNotFound, "HTTPTrigger": v1alpha1.ReasonReady} {
		eventually(t, kind+" is counted", func() bool { return counted(t, registry, kind, reason) > 0 })
	}
}

func counted(t *testing.T, registry *prometheus.Registry, kind, reason string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, pair := range metric.GetLabel() {
				labels[pair.GetName()] = pair.GetValue()
			}
			if labels["kind"] == kind && labels["reason"] == reason {
				total += metric.GetGauge().GetValue()
			}
		}
	}
	return total
}
