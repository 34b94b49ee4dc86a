// Package desired says which objects a Function becomes: pure functions from a
// Function to apply configurations, and the names and labels that tie them
// together. It knows nothing of what is in a cluster.
package desired

import (
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"goless.io/operator/api/v1beta1"
)

// FunctionLabel holds the name of the Function on everything that belongs to it.
// It is the whole selector of the Deployment and of the Service.
const FunctionLabel = "goless.io/function"

// Selector selects what belongs to the Function named name.
func Selector(name string) map[string]string {
	return map[string]string{FunctionLabel: name}
}

func labels(fn *v1beta1.Function) map[string]string {
	return map[string]string{
		FunctionLabel:                  fn.Name,
		"app.kubernetes.io/name":       fn.Name,
		"app.kubernetes.io/managed-by": "goless",
	}
}

func revisionLabels(fn *v1beta1.Function, revision string) map[string]string {
	l := labels(fn)
	l[RevisionLabel] = revision
	return l
}

// owner makes the Function the controller of an object, so that the object goes
// when the Function goes.
func owner(fn *v1beta1.Function) *metav1ac.OwnerReferenceApplyConfiguration {
	return metav1ac.OwnerReference().
		WithAPIVersion(v1beta1.GroupVersion.String()).
		WithKind("Function").
		WithName(fn.Name).
		WithUID(fn.UID).
		WithController(true).
		WithBlockOwnerDeletion(true)
}
