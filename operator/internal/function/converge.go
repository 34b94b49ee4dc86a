package function

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/check"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
)

// converge makes the Function's objects what they should be, the source before
// the pods that compile it, and before both the order for the build service, which
// takes its time. It goes on after an error: the objects do not need
// each other to exist. The result has what the converging itself shows: the
// problem that only the user can solve, and the pod template.
//
// While the source is refused, the rest of the spec holds for the last source
// that was not, so that it can still be scaled, stopped and healed. What exceeds
// the ceilings of the cluster holds as far as they allow.
func (r *Reconciler) converge(ctx context.Context, fn *v1beta1.Function, verdict check.Verdict) (status.Seen, error) {
	seen := status.Seen{Problem: verdict.Spec.Problem()}
	seen.Diagnostics, seen.Omitted = verdict.Diagnostics()
	if seen.Problem != nil {
		seen.Refused = true
		return seen, nil
	}
	fn = withinCeilings(fn, r.Settings)
	if verdict.Source != nil {
		valid, err := r.lastValid(ctx, fn)
		if err != nil {
			return seen, err
		}
		if valid == nil {
			seen.Problem, err = r.keep(ctx, fn)
			return seen, err // the mistakes in the source come first
		}
		fn = valid
	}

	deployment, ordered, deploymentErr := r.deployment(ctx, fn)
	results := []error{
		ensure(ctx, r, fn, desired.ConfigMap(fn), &corev1.ConfigMap{}, corev1ac.ExtractConfigMap),
		deploymentErr,
		r.ensureDeployment(ctx, fn, deployment),
		r.unswapped(ctx, fn, ensure(ctx, r, fn, desired.Service(fn), &corev1.Service{}, corev1ac.ExtractService)),
	}
	if desired.Disruptable(fn) && !r.Settings.NoDisruptionBudgets {
		results = append(results, unlessTaken(ensure(ctx, r, fn, desired.Budget(fn), &policyv1.PodDisruptionBudget{}, policyv1ac.ExtractPodDisruptionBudget)))
	}
	if r.Settings.NetworkPolicy {
		results = append(results, unlessTaken(ensure(ctx, r, fn, desired.NetworkPolicy(fn), &networkingv1.NetworkPolicy{}, networkingv1ac.ExtractNetworkPolicy)))
	}
	seen.Ordered, seen.Template = ordered, desired.TemplateIn(deployment)
	var err error
	seen.Problem, err = solvable(results...)
	if seen.Problem == nil {
		seen.Problem = verdict.Excess.Problem()
	}
	return seen, err
}

// unlessTaken is for what a function can do without: somebody's own object of that
// name is his decision.
func unlessTaken(err error) error {
	if _, taken := errors.AsType[*notOwnedError](err); taken {
		return nil
	}
	return err
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

	// wanted is the Service of the Function that the controller waits for; empty
	// when it waits for none.
	wanted string
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
	if e.wanted != "" {
		whose += fmt.Sprintf(", which waits for this Function's Service %q,", e.wanted)
		remedy = "to swap the two, give one of the Functions a third spec.service for a while"
	}
	return fmt.Sprintf("%s %q %s and is left alone: %s", e.kind, e.name, whose, remedy)
}
