package controllers

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/trigger/api/v1alpha1"
)

var triggersDesc = prometheus.NewDesc("goless_triggers",
	"Number of triggers by kind and by their conditions Ready and Delivered, counted by the leader.",
	[]string{"kind", "condition", "status", "reason"}, nil)

// Triggers is a Prometheus collector that counts the triggers in the cache.
type Triggers struct {
	// Reader reads from the cache.
	Reader client.Reader

	// Working is closed when this replica becomes the leader.
	Working <-chan struct{}
}

// Describe sends the description of the metric.
func (t Triggers) Describe(ch chan<- *prometheus.Desc) { ch <- triggersDesc }

// Collect sends the counts. It sends nothing if the cache cannot be read or this replica is not the
// leader.
func (t Triggers) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-t.Working:
	default:
		return
	}
	counts := map[[4]string]int{}
	for _, list := range []client.ObjectList{&v1alpha1.CronTriggerList{}, &v1alpha1.HTTPTriggerList{}, &v1alpha1.KafkaTriggerList{}, &v1alpha1.NATSTriggerList{}} {
		if err := t.Reader.List(context.Background(), list, client.UnsafeDisableDeepCopy); err != nil {
			return
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			count(counts, item.(v1alpha1.Trigger))
			return nil
		})
	}
	for labels, n := range counts {
		ch <- prometheus.MustNewConstMetric(triggersDesc, prometheus.GaugeValue, float64(n), labels[:]...)
	}
}

func count(counts map[[4]string]int, t v1alpha1.Trigger) {
	for _, c := range t.CommonStatus().Conditions {
		if c.Type == v1alpha1.ConditionReady || c.Type == v1alpha1.ConditionDelivered {
			counts[[4]string{t.TriggerKind(), c.Type, string(c.Status), c.Reason}]++
		}
	}
	if len(t.CommonStatus().Conditions) == 0 {
		counts[[4]string{t.TriggerKind(), v1alpha1.ConditionReady, string(metav1.ConditionUnknown), ""}]++
	}
}
