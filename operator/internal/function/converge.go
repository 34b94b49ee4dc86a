package function

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
)

// converge makes the Function's objects what they should be, the source before
// the pods that compile it. It goes on after an error: the objects do not need
// each other to exist. A problem is what only the user can solve.
//
// While the source is refused, the rest of the spec holds for the last source
// that was not, so that it can still be scaled, stopped and healed.
func (r *Reconciler) converge(ctx context.Context, fn *v1beta1.Function, verdict verdict) (*status.Problem, error) {
	if verdict.problem != nil {
		return verdict.problem, nil
	}
	if len(verdict.diagnostics) > 0 {
		valid, err := r.lastValid(ctx, fn)
		if err != nil {
			return nil, err
		}
		if valid == nil {
			return r.keep(ctx, fn)
		}
		fn = valid
	}

	return solvable(
		ensure(ctx, r, fn, desired.ConfigMap(fn), &corev1.ConfigMap{}, corev1ac.ExtractConfigMap),
		ensure(ctx, r, fn, desired.Deployment(fn, r.Images), &appsv1.Deployment{}, appsv1ac.ExtractDeployment),
		ensure(ctx, r, fn, desired.Service(fn), &corev1.Service{}, corev1ac.ExtractService),
	)
}

// solvable tells a name that belongs to somebody else, the first one, from other
// errors: trying again at once does not help.
func solvable(results ...error) (problem *status.Problem, err error) {
	for _, result := range results {
		taken, ok := errors.AsType[*notOwnedError](result)
		switch {
		case !ok:
			err = errors.Join(err, result)
		case problem == nil:
			problem = &status.Problem{Reason: taken.reason(), Message: taken.Error()}
		}
	}
	return problem, err
}

// notOwnedError says that an object has the name that a Function needs and is
// not the Function's.
type notOwnedError struct {
	kind, name string
	controller *metav1.OwnerReference
}

func (e *notOwnedError) reason() string {
	if e.kind == "Service" {
		return v1beta1.ReasonServiceConflict
	}
	return v1beta1.ReasonNotOwned
}

func (e *notOwnedError) Error() string {
	whose := "does not belong to this Function"
	if e.controller != nil {
		whose = fmt.Sprintf("belongs to %s %q", e.controller.Kind, e.controller.Name)
	}
	remedy := "rename the function, or remove the " + e.kind
	if e.kind == "Service" {
		remedy = "choose another spec.service, or remove the Service"
	}
	return fmt.Sprintf("%s %q %s and is left alone: %s", e.kind, e.name, whose, remedy)
}
