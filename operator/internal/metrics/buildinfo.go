package metrics

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// BuildInfo returns a metric with the given name that is always 1 and has the version in its
// labels.
func BuildInfo(name, version, commit string) prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        name,
		Help:        "Always 1; the labels contain the version.",
		ConstLabels: prometheus.Labels{"version": version, "commit": commit, "go_version": runtime.Version()},
	})
	info.Set(1)
	return info
}
