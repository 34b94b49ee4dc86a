package desired

import (
	"strings"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/settings"
)

// PodMetadataPrefix is the prefix of the labels and annotations of a Function that its pods get
// too.
const PodMetadataPrefix = "pod.goless.io/"

// podMetadata are the labels and annotations of a Function that its pods get. Only allowed
// prefixes are passed on, because some annotations give pods power over the node.
type podMetadata struct{ labels, annotations map[string]string }

func podMetadataFrom(fn *v1beta1.Function, s settings.Settings) podMetadata {
	prefixes := append([]string{PodMetadataPrefix}, s.PodMetadataPrefixes...)
	return podMetadata{labels: withPrefix(fn.Labels, prefixes), annotations: withPrefix(fn.Annotations, prefixes)}
}

// Annotations returns those annotations of a Function that mean something: those that its pods get, and
// UpgradeAnnotation.
func Annotations(fn *v1beta1.Function, s settings.Settings) map[string]string {
	kept := podMetadataFrom(fn, s).annotations
	if value, ok := fn.Annotations[UpgradeAnnotation]; ok {
		kept[UpgradeAnnotation] = value
	}
	return kept
}

func withPrefix(all map[string]string, prefixes []string) map[string]string {
	kept := map[string]string{}
	for name, value := range all {
		for _, prefix := range prefixes {
			if strings.HasPrefix(name, prefix) {
				kept[name] = value
			}
		}
	}
	return kept
}
