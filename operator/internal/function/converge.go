package function

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/status"
)

// converge makes the Function's objects what they should be, the source before
// the pods that compile it. It goes on after an error: the objects do not need
// each other to exist. The result has what the converging itself shows: the
// problem that only the user can solve, and the pod template.
//
// While the source is refused, the rest of the spec holds for the last source
// that was not, so that it can still be scaled, stopped and healed. What exceeds
// the ceilings of the cluster holds as far as they allow.
func (r *Reconciler) converge(ctx context.Context, fn *v1beta1.Function, verdict verdict) (status.Seen, error) {
	seen := status.Seen{Diagnostics: verdict.diagnostics, Omitted: verdict.omitted, Problem: verdict.problem}
	if verdict.problem != nil {
		seen.Refused = true
		return seen, nil
	}
	fn = withinCeilings(fn, r.Settings)
	if len(verdict.diagnostics) > 0 {
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

	sourceErr := ensure(ctx, r, fn, desired.ConfigMap(fn), &corev1.ConfigMap{}, corev1ac.ExtractConfigMap)
	template, deploymentErr := r.ensureDeployment(ctx, fn)
	results := []error{
		sourceErr, deploymentErr,
		ensure(ctx, r, fn, desired.Service(fn), &corev1.Service{}, corev1ac.ExtractService),
	}
	if desired.Disruptable(fn) && !r.Settings.NoDisruptionBudgets {
		results = append(results, unlessTaken(ensure(ctx, r, fn, desired.Budget(fn), &policyv1.PodDisruptionBudget{}, policyv1ac.ExtractPodDisruptionBudget)))
	}
	if r.Settings.NetworkPolicy {
		results = append(results, unlessTaken(ensure(ctx, r, fn, desired.NetworkPolicy(fn), &networkingv1.NetworkPolicy{}, networkingv1ac.ExtractNetworkPolicy)))
	}
	var err error
	seen.Template = template
	seen.Problem, err = solvable(results...)
	if seen.Problem == nil {
		seen.Problem = verdict.excess
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

// ensureDeployment makes the Deployment what it should be, and returns the hash of
// its pod template. A function that has been built is not restarted for what the
// operator brings by itself: a new image, say. One that has not takes all that may
// help it.
func (r *Reconciler) ensureDeployment(ctx context.Context, fn *v1beta1.Function) (template string, err error) {
	values, err := r.references.hash(ctx, fn)
	if err != nil {
		return "", err
	}
	want := desired.Deployment(fn, r.Settings, values)
	var live appsv1.Deployment
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(fn), &live); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading Deployment %q: %w", fn.Name, err)
	}
	if r.Settings.Rollout != settings.Always && built(fn) && metav1.IsControlledBy(&live, fn) {
		owned, err := appsv1ac.ExtractDeployment(&live, FieldOwner)
		if err != nil {
			return "", fmt.Errorf("reading the managed fields of Deployment %q: %w", live.Name, err)
		}
		want = desired.Kept(want, owned, fn.Status.ObservedGeneration == fn.Generation)
	}
	template = want.Spec.Template.Labels[desired.TemplateLabel]
	if err := ensure(ctx, r, fn, want, &appsv1.Deployment{}, appsv1ac.ExtractDeployment); err != nil {
		return template, err
	}
	if template != desired.TemplateOf(&live.Spec.Template) {
		r.Metrics.RolledOut()
	}
	return template, nil
}

// built tells whether the last source that was not refused has compiled.
func built(fn *v1beta1.Function) bool {
	c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionBuilt)
	return c != nil && (c.Reason == v1beta1.ReasonBuilt || c.Reason == v1beta1.ReasonInvalidSource)
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
