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

// Summarize replaces each value of a ConfigMap by its summary, as the cache has it. It does not
// change a ConfigMap that looks so already.
func Summarize(c *corev1.ConfigMap) {
	c.BinaryData = nil
	for name, value := range c.Data {
		if !strings.HasPrefix(value, summaryPrefix) {
			c.Data[name] = CachedSource(desired.SummaryOf(value))
		}
	}
}

// summaryPrefix begins a summary. It is random, so that nobody can write a text into a
// ConfigMap that passes for a summary.
var summaryPrefix = rand.Text() + ":"

// CachedSource is what the cache has in place of a source in a ConfigMap. The names of these
// ConfigMaps tell the source too, but only this tells whether somebody else has created one
// with another content under such a name.
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
