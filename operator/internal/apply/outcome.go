package apply

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/validation"
)

// Outcome is the result of applying a plan.
type Outcome struct {
	// Problem reports the objects that belong to another owner although the Function needs their
	// names; nil if there are none. Its reason is ReasonServiceConflict if the first of them is a
	// Service, otherwise ReasonNotOwned.
	Problem *validation.Problem

	// Degraded reports the optional parts that are missing.
	Degraded []validation.Problem

	// Err is the reason why an object could not be applied. The reconcile is retried.
	Err error

	// Deployment is the Function's own Deployment; nil if there is none. If the Deployment existed
	// before the apply, this is the version in the Snapshot, which is consistent with the
	// ReplicaSets and pods in the Snapshot.
	Deployment *appsv1.Deployment

	// Service is the Service that belongs to the Function after the apply; nil if there is none.
	Service *corev1.Service

	// Records are the ControllerRevisions of the Function after the apply, the newest first.
	Records []appsv1.ControllerRevision

	// ForeignDeployment and ForeignService have names that the Function needs and do not belong to
	// it; nil if there are none.
	ForeignDeployment *appsv1.Deployment
	ForeignService    *corev1.Service
}

// add records an error about a required object; nil for success.
func (o *Outcome) add(err error) {
	taken, ok := errors.AsType[*notOwnedError](err)
	switch {
	case !ok:
		o.Err = errors.Join(o.Err, err)
	case o.Problem == nil:
		o.Problem = &validation.Problem{Reason: taken.reason(), Message: taken.Error()}
	default:
		o.Problem.Message += "; " + taken.Error()
	}
}

// addOptional records an error about an optional object. The Function becomes Degraded, with a
// reason, and stays ready. These errors are recorded by add instead: the object belongs to another
// owner, a conflict, which is retried at once, and the deletion of the namespace.
func (o *Outcome) addOptional(reason string, err error) {
	_, taken := errors.AsType[*notOwnedError](err)
	switch {
	case err == nil:
	case taken, apierrors.IsConflict(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		o.add(err)
	default:
		o.Degraded = append(o.Degraded, validation.Problem{Reason: reason, Message: err.Error()})
	}
}

// ignoreNotOwned returns nil if err reports that an object belongs to another owner. It is for
// objects whose effect does not depend on the owner, such as a PodDisruptionBudget.
func ignoreNotOwned(err error) error {
	if _, taken := errors.AsType[*notOwnedError](err); taken {
		return nil
	}
	return err
}

// notOwnedError reports that an object has a name that a Function needs and does not belong to the
// Function.
type notOwnedError struct {
	kind, namespace, name string
	owner                 *metav1.OwnerReference
}

func (e *notOwnedError) reason() string {
	if e.kind == "Service" {
		return v1beta1.ReasonServiceConflict
	}
	return v1beta1.ReasonNotOwned
}

func (e *notOwnedError) Error() string {
	remedy := "rename the Function"
	if e.kind == "Service" {
		remedy = "set another name in spec.service"
	}
	whose := "was not created for this Function by its operator"
	if e.owner != nil {
		whose = fmt.Sprintf("belongs to %s %q", e.owner.Kind, e.owner.Name)
		if e.owner.Controller != nil && *e.owner.Controller { // which would create the object again
			return fmt.Sprintf("%s %q %s and is not changed; %s", e.kind, e.name, whose, remedy)
		}
	}
	return fmt.Sprintf("%s %q %s and is not changed; delete it if it is not needed (kubectl -n %s delete %s %s), or %s",
		e.kind, e.name, whose, e.namespace, strings.ToLower(e.kind), e.name, remedy)
}
