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

// Selector returns the labels that select what belongs to a Function.
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
