package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
)

const revisionDigits = 10

// Revision returns the first ten hexadecimal digits of the SHA-256 hash of a source, its source
// revision.
func Revision(source string) string { return digits([]byte(source)) }

// LatestRevision returns the source revision of the current source of a Function.
func LatestRevision(fn *v1beta1.Function) string {
	return Summary(fn).SHA256[:revisionDigits]
}

// Summary returns the summary of a Function's source, whether or not the Function contains the
// source itself.
func Summary(fn *v1beta1.Function) v1beta1.SourceSummary {
	if fn.Spec.Summary != nil {
		return *fn.Spec.Summary
	}
	return SummaryOf(fn.Spec.Function)
}

// SummaryOf returns the summary of a source.
func SummaryOf(source string) v1beta1.SourceSummary {
	sum := sha256.Sum256([]byte(source))
	files := handler.Split(handler.Filename, []byte(source))
	return v1beta1.SourceSummary{
		SHA256:  hex.EncodeToString(sum[:]),
		Modules: slices.ContainsFunc(files, func(f handler.File) bool { return f.Name == "go.mod" }),
	}
}

// ConfigMap returns the ConfigMap with the source of a Function. Its name contains the source
// revision and it is immutable, so that a restarted pod of a previous revision compiles the
// previous source.
func ConfigMap(fn *v1beta1.Function) *corev1ac.ConfigMapApplyConfiguration {
	revision := LatestRevision(fn)
	return corev1ac.ConfigMap(ConfigMapName(fn, revision), fn.Namespace).
		WithLabels(labels(fn)).
		WithLabels(map[string]string{RevisionLabel: revision}).
		WithOwnerReferences(owner(fn)).
		WithImmutable(true).
		WithData(map[string]string{handler.Filename: fn.Spec.Function})
}

// ConfigMapName returns the name of the ConfigMap of a source revision.
func ConfigMapName(fn *v1beta1.Function, revision string) string {
	return fn.Name + "-" + revision
}
