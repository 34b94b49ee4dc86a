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

// Revision names a source by its content: ten hexadecimal digits of its
// SHA-256. Equal sources are the same revision.
func Revision(source string) string { return digits([]byte(source)) }

// LatestRevision is the revision of a Function's own source.
func LatestRevision(fn *v1beta1.Function) string {
	return Summary(fn).SHA256[:revisionDigits]
}

// Summary returns the summary of a Function's source, with or without the source itself.
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

// ConfigMap holds the source of one revision. Its name follows from its content
// and it is immutable, so a pod of an old revision that starts again still
// compiles the old source.
func ConfigMap(fn *v1beta1.Function) *corev1ac.ConfigMapApplyConfiguration {
	revision := LatestRevision(fn)
	return corev1ac.ConfigMap(ConfigMapName(fn, revision), fn.Namespace).
		WithLabels(labels(fn)).
		WithLabels(map[string]string{RevisionLabel: revision}).
		WithOwnerReferences(owner(fn)).
		WithImmutable(true).
		WithData(map[string]string{handler.Filename: fn.Spec.Function})
}

// ConfigMapName is the name of the ConfigMap of a revision.
func ConfigMapName(fn *v1beta1.Function, revision string) string {
	return fn.Name + "-" + revision
}
