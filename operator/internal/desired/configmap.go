package desired

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
)

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
