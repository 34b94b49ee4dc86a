package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"goless.io/operator/api/v1beta1"
)

// scrapeTimeout is how long a scrape may wait for the cache, which answers at
// once when it answers at all.
const scrapeTimeout = 5 * time.Second

var functionsDesc = prometheus.NewDesc("goless_functions",
	"Number of Functions by condition, its status and its reason.", []string{"condition", "status", "reason"}, nil)

// Functions counts Functions when it is asked. Of several operators only the one
// that works does.
type Functions struct {
	// List reads all Functions from a cache. They are not changed here.
	List func(context.Context, *v1beta1.FunctionList) error

	// Working is closed once this operator works.
	Working <-chan struct{}
}

// Describe is for the registry.
func (f Functions) Describe(into chan<- *prometheus.Desc) { into <- functionsDesc }

// Collect counts.
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
