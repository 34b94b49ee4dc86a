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

// An Outcome is the result of applying a plan.
type Outcome struct {
	// Problem tells which objects with the names that the Function needs belong to somebody else;
	// nil when none does. Its reason is that of the first one.
	Problem *validation.Problem

	// Degraded is what the function has to do without for now.
	Degraded []validation.Problem

	// Err is why something could not be brought about. It is tried again.
	Err error

	// Deployment is the Function's own; nil when there is none. One that existed before is as
	// it was in the Snapshot, at the same time as its ReplicaSets and pods.
	Deployment *appsv1.Deployment

	// Service is the Function's own after the apply; nil when there is none.
	Service *corev1.Service

	// ForeignDeployment and ForeignService have the names that the Function needs, and do not belong to it;
	// nil when there are none.
	ForeignDeployment *appsv1.Deployment
	ForeignService    *corev1.Service
}

// add takes in an error about an object that the function needs; nil for success.
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

// addOptional takes in an error about an object that the function can do without. It makes the
// Function Degraded, with a reason, and not unready. Three kinds of errors are those of add all the
// same: that an object belongs to somebody else, a conflict, which is tried again at once, and that
// the namespace is being deleted.
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

// ignoreNotOwned returns nil if err says that an object belongs to somebody else. That is fine for
// an object which has its effect whoever has made it, such as a PodDisruptionBudget.
func ignoreNotOwned(err error) error {
	if _, taken := errors.AsType[*notOwnedError](err); taken {
		return nil
	}
	return err
}

// notOwnedError says that an object has the name that a Function needs and is
// not the Function's.
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
		remedy = "choose another spec.service"
	}
	whose := "was not created for this Function by its operator"
	if e.owner != nil {
		whose = fmt.Sprintf("belongs to %s %q", e.owner.Kind, e.owner.Name)
		if e.owner.Controller != nil && *e.owner.Controller { // it would create the object again
			return fmt.Sprintf("%s %q %s and is not changed; %s", e.kind, e.name, whose, remedy)
		}
	}
	return fmt.Sprintf("%s %q %s and is not changed; delete it if it is not needed (kubectl -n %s delete %s %s), or %s",
		e.kind, e.name, whose, e.namespace, strings.ToLower(e.kind), e.name, remedy)
}
