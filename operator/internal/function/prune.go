package function

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
)

// prune removes what the Function once needed: Services of a former
// spec.service, once the new one is there, sources that no pod can start from any
// more, and what it has no use for any more.
func (r *Reconciler) prune(ctx context.Context, fn *v1beta1.Function, seen status.Seen) error {
	var services corev1.ServiceList
	var sources corev1.ConfigMapList
	if err := errors.Join(r.list(ctx, fn, &services), r.list(ctx, fn, &sources)); err != nil {
		return err
	}

	errs := []error{r.pruneOptional(ctx, fn)}
	if seen.Service != nil && seen.Service.Name == fn.ServiceName() {
		for _, service := range owned(services.Items, fn.UID) {
			if service.Name != fn.ServiceName() {
				errs = append(errs, r.remove(ctx, &service))
			}
		}
	}
	needed := neededRevisions(fn, seen)
	for _, source := range owned(sources.Items, fn.UID) {
		if !needed[desired.RevisionOf(&source)] {
			errs = append(errs, r.remove(ctx, &source))
		}
	}
	return errors.Join(errs...)
}

// pruneOptional removes what not every Function has.
func (r *Reconciler) pruneOptional(ctx context.Context, fn *v1beta1.Function) error {
	var budgets policyv1.PodDisruptionBudgetList
	var policies networkingv1.NetworkPolicyList
	if err := errors.Join(r.list(ctx, fn, &budgets), r.list(ctx, fn, &policies)); err != nil {
		return err
	}
	var errs []error
	for _, budget := range owned(budgets.Items, fn.UID) {
		if !desired.Disruptable(fn) || r.Settings.NoDisruptionBudgets {
			errs = append(errs, r.remove(ctx, &budget))
		}
	}
	for _, policy := range owned(policies.Items, fn.UID) {
		if !r.Settings.NetworkPolicy {
			errs = append(errs, r.remove(ctx, &policy))
		}
	}
	return errors.Join(errs...)
}

// neededRevisions are the latest valid one, the Deployment's, and those of ReplicaSets
// that have or want pods. Pods alone do not tell: the last pod of a revision
// that serves may just be on its way to another node.
func neededRevisions(fn *v1beta1.Function, seen status.Seen) map[string]bool {
	needed := map[string]bool{desired.Revision(fn.Spec.Function): true}
	if len(seen.Diagnostics) > 0 {
		needed[fn.Status.LatestRevision] = true
	}
	if seen.Deployment != nil {
		needed[desired.RevisionOf(&seen.Deployment.Spec.Template)] = true
	}
	for _, set := range seen.ReplicaSets {
		if set.Status.Replicas > 0 || set.Spec.Replicas == nil || *set.Spec.Replicas > 0 {
			needed[desired.RevisionOf(&set)] = true
		}
	}
	return needed
}

// remove deletes the very object that was seen, not one that took its name.
func (r *Reconciler) remove(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := r.Client.Delete(ctx, obj, client.Preconditions{UID: &uid}, unawaited)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing %T %q: %w", obj, obj.GetName(), err)
	}
	return nil
}
