// Package desired makes the objects of a Function: pure functions from a Function to apply
// configurations, and the names and labels that tie them together. It reads nothing from a
// cluster. Package plan decides which of several templates a Deployment has.
package desired

import (
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// FieldOwner is the field manager of everything that the operator writes.
const FieldOwner = "goless-operator"

// FunctionLabel holds the name of the Function on everything that belongs to it. The selectors
// of the Deployment and of the Service consist of it.
const FunctionLabel = v1beta1.FunctionLabel

const (
	// ManagedByLabel has the value ManagedBy on everything that the operator applies.
	ManagedByLabel = "app.kubernetes.io/managed-by"

	// ManagedBy is the value of ManagedByLabel.
	ManagedBy = "goless"

	// RevisionLabel holds the revision on what belongs to one revision only:
	// its ConfigMap, and, by the pod template, its ReplicaSets and pods.
	RevisionLabel = "goless.io/revision"

	// TemplateLabel holds, on pods and ReplicaSets, the hash of the pod template that they
	// were made from, and after a hyphen the hash of its fields, without their values.
	TemplateLabel = "goless.io/template"

	// ValuesAnnotation holds, on pods, the hash of what their environment and their
	// files took from ConfigMaps and Secrets.
	ValuesAnnotation = "goless.io/values"

	// SpecHashLabel holds, on a Deployment, the hash of what the author of the Function asks
	// for. It is a label because a change of annotations counts as a change of the spec.
	SpecHashLabel = "goless.io/spec-hash"

	// ClassLabel holds, on a Deployment, the hash of the FunctionClass that its pods are made
	// by. Without a class there is none.
	ClassLabel = "goless.io/class"

	// sourceAnnotation holds, on pods, the whole SHA-256 of the source. A revision is so short
	// that somebody may find two sources of the same one.
	sourceAnnotation = "goless.io/source"

	// defaultContainer names, on pods, the container that kubectl means.
	defaultContainer = "kubectl.kubernetes.io/default-container"

	// evictableVolumes names, on pods, the volumes that the cluster autoscaler ignores when it decides
	// whether a pod may be evicted. Otherwise it keeps each node with a pod that has a volume on disk.
	evictableVolumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

	// RolloutAnnotation is what the Deployment controller numbers rollouts by, on a
	// Deployment and on the ReplicaSet of its template.
	RolloutAnnotation = "deployment.kubernetes.io/revision"

	// UpgradeAnnotation is for users to set on a Function: with each new value,
	// whatever it is, the function takes what a new version of the operator or its
	// settings have brought.
	UpgradeAnnotation = "goless.io/upgrade"
)

// Selector returns the labels that select what belongs to a Function.
func Selector(name string) map[string]string {
	return map[string]string{FunctionLabel: name}
}

func labels(fn *v1beta1.Function) map[string]string {
	return map[string]string{
		FunctionLabel:            fn.Name,
		"app.kubernetes.io/name": fn.Name,
		ManagedByLabel:           ManagedBy,
	}
}

// owner makes the Function the controller of an object, so that the object is deleted with the
// Function.
func owner(fn *v1beta1.Function) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1beta1.GroupVersion.String()).
		WithKind("Function").
		WithName(fn.Name).
		WithUID(fn.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}
