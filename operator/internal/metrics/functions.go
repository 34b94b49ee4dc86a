package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"goless.io/operator/api/v1beta1"
)

// scrapeTimeout is the time for which a scrape waits for the cache.
const scrapeTimeout = 5 * time.Second

var functionsDesc = prometheus.NewDesc("goless_functions",
	"Number of Functions by condition, its status and its reason.", []string{"condition", "status", "reason"}, nil)

// Functions is a Collector that counts Functions when it is scraped. If the operator has several
// replicas, only the leader reports the metric.
type Functions struct {
	// List lists all Functions from a cache. They are not modified.
	List func(context.Context, *v1beta1.FunctionList) error

	// Working is closed when this replica becomes the leader.
	Working <-chan struct{}
}

// Describe implements prometheus.Collector.
func (f Functions) Describe(into chan<- *prometheus.Desc) { into <- functionsDesc }

// Collect implements prometheus.Collector.
func (f Functions) Collect(into chan<- prometheus.Metric) {
	select {
	case <-f.Working:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var all v1beta1.FunctionList
	if err := f.List(ctx, &all); err != nil {
		into <- prometheus.NewInvalidMetric(functionsDesc, err)
		return
	}
	type state struct{ condition, status, reason string }
	counts := map[state]int{}
	for i := range all.Items {
		for _, c := range all.Items[i].Status.Conditions {
			counts[state{c.Type, string(c.Status), c.Reason}]++
		}
	}
	for s, n := range counts {
		into <- prometheus.MustNewConstMetric(functionsDesc, prometheus.GaugeValue, float64(n), s.condition, s.status, s.reason)
	}
}
