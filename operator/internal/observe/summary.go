package observe

import (
	"crypto/rand"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

// Summarize replaces each value of a ConfigMap with its summary. The cache contains ConfigMaps in
// this form. Summarize does not change a ConfigMap that has been summarized.
func Summarize(c *corev1.ConfigMap) {
	c.BinaryData = nil
	for name, value := range c.Data {
		if !strings.HasPrefix(value, summaryPrefix) {
			c.Data[name] = CachedSource(desired.SummaryOf(value))
		}
	}
}

// summaryPrefix is the prefix of a summary. It is random, so that no client can write a ConfigMap
// whose text passes for a summary.
var summaryPrefix = rand.Text() + ":"

// CachedSource returns the value that replaces a source in a ConfigMap of the cache. The names of
// these ConfigMaps identify the source too, but only this value shows whether another client has
// created a ConfigMap with other content under such a name.
func CachedSource(summary v1beta1.SourceSummary) string {
	return fmt.Sprintf("%s%s:%t", summaryPrefix, summary.SHA256, summary.Modules)
}

// summaryIn returns the summary of the source in a ConfigMap of the cache.
func summaryIn(c *corev1.ConfigMap) (summary v1beta1.SourceSummary, ok bool) {
	text, ok := strings.CutPrefix(c.Data[handler.Filename], summaryPrefix)
	summary.SHA256, text, _ = strings.Cut(text, ":")
	summary.Modules = text == "true"
	return summary, ok
}
