// Package desired returns the desired objects of a Function as apply configurations, and defines
// the names and labels that connect them. Its functions do not access the cluster. Package plan
// decides whether a Deployment gets a new pod template or keeps its current one (see Keep).
//
// In the names of this package, Revision is short for source revision, the hash of the source of a
// Function, and a Record is the ControllerRevision that records a version of a Function.
//
// Exported functions whose names end in "Of" take an object that was read from the cluster, except
// SummaryOf, which takes a source. Those whose names end in "In" take an apply configuration.
// BinaryFor is like BinaryIn, but returns nil if the binary was not compiled from the current
// source of the given Function.
package desired

import (
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// FieldOwner is the field manager of everything that the operator applies.
const FieldOwner = "goless-operator"

// FunctionLabel is the label that contains the name of the Function on all objects that belong to
// it. The selectors of the Deployment and of the Service use it.
const FunctionLabel = v1beta1.FunctionLabel

const (
	// ManagedByLabel is set to ManagedBy on all objects that the operator applies.
	ManagedByLabel = "app.kubernetes.io/managed-by"

	// ManagedBy is the value of ManagedByLabel.
	ManagedBy = "goless"

	// RevisionLabel contains the source revision. It is set on ConfigMaps, ControllerRevisions and pod
	// templates, and so on ReplicaSets and pods.
	RevisionLabel = "goless.io/revision"

	// TemplateLabel is the label with the hash of a pod template.
	TemplateLabel = v1beta1.TemplateLabel

	// ValuesAnnotation contains, on pods, the hash of the values that their environment and files
	// refer to in ConfigMaps and Secrets.
	ValuesAnnotation = "goless.io/values"

	// SpecHashLabel contains, on a Deployment, the hash of the spec of the Function. It is a label
	// and not an annotation, because Kubernetes increases the generation of a Deployment when one
	// of its annotations changes.
	SpecHashLabel = "goless.io/spec-hash"

	// recordedSpecLabel contains, on a ControllerRevision, the hash of the spec of the Function.
	// Unlike SpecHashLabel, it does not depend on the values of ConfigMaps and Secrets, if the spec is
	// known.
	recordedSpecLabel = "goless.io/recorded-spec"

	// ClassLabel contains, on a Deployment, the hash of the FunctionClass of its pods. It is absent
	// without a class.
	ClassLabel = "goless.io/class"

	// awaitsBuildLabel marks a Deployment that was created while its binary was being compiled. The
	// access policy allows the operator to delete such a Deployment if none of its pods is ready.
	awaitsBuildLabel = "goless.io/awaits-build"

	// sourceAnnotation contains, on pods, the full SHA-256 hash of the source. A source revision is so
	// short that an attacker could find two sources with the same one.
	sourceAnnotation = "goless.io/source"

	// defaultContainer is the annotation with the default container of kubectl.
	defaultContainer = "kubectl.kubernetes.io/default-container"

	// evictableVolumes lists, on pods, the volumes that the cluster autoscaler ignores when it
	// decides whether a pod may be evicted. Without it, the autoscaler keeps each node with a pod
	// that has a volume on disk.
	evictableVolumes = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

	// RolloutAnnotation contains the number of the rollout, on a Deployment and on the ReplicaSet
	// of its template. The Deployment controller sets it.
	RolloutAnnotation = "deployment.kubernetes.io/revision"

	// UpgradeAnnotation is set by users on a Function. Each new value makes the function adopt
	// changes to the operator and its settings.
	UpgradeAnnotation = "goless.io/upgrade"
)

// Selector returns the labels that select the objects of a Function.
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

// owner returns an owner reference that makes the Function the controller of an object, so that the
// object is deleted with the Function.
func owner(fn *v1beta1.Function) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1beta1.GroupVersion.String()).
		WithKind("Function").
		WithName(fn.Name).
		WithUID(fn.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}
