// Package desired says which objects a Function becomes: pure functions from a
// Function to apply configurations, and the names and labels that tie them
// together. It knows nothing of what is in a cluster.
package desired

import (
	"crypto/sha256"
	"encoding/hex"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"goless.io/operator/api/v1beta1"
)

const (
	// FunctionLabel holds the name of the Function on everything that belongs
	// to it. It is the whole selector of the Deployment and of the Service.
	FunctionLabel = "goless.io/function"

	// RevisionLabel holds the revision on what belongs to one revision only:
	// its ConfigMap, and, by the pod template, its ReplicaSets and pods.
	RevisionLabel = "goless.io/revision"
)

// Images are the container images of a function's pods.
type Images struct {
	// Builder compiles the source, as the init container.
	Builder string

	// Function is what the compiled program runs in.
	Function string
}

// Revision names a source by its content: ten hexadecimal digits of its
// SHA-256. Equal sources are the same revision.
func Revision(source string) string {
	sum := sha256.Sum256([]byte(source))
	return hex.EncodeToString(sum[:])[:10]
}

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

// RevisionOf is the revision that an object of the cluster belongs to; empty
// when it belongs to none.
func RevisionOf(obj metav1.Object) string {
	return obj.GetLabels()[RevisionLabel]
}
