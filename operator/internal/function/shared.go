package function

import (
	"cmp"
	"context"
	"errors"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/build"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
)

// watchBuilds makes a controller look at a Function when the build service has
// answered an order of it.
func watchBuilds(mgr manager.Manager, url string, b *builder.Builder) (*build.Orders, error) {
	orders := build.New(&build.Service{URL: cmp.Or(url, build.URL), Live: mgr.GetAPIReader(), Client: mgr.GetClient()})
	b.WatchesRawSource(orders.Changed())
	return orders, mgr.Add(orders)
}

// order finds the binary of a Function: the one that its pods have, has, as long as
// all of them are ready; nobody has to be asked then, unless how it was built was
// never told. Where replicas are missing the service may have lost it, or compile
// this source to another one by now. The binary is nil when there is none yet.
func (r *Reconciler) order(ctx context.Context, fn *v1beta1.Function, live *appsv1.Deployment, has *desired.Binary) (*desired.Binary, *status.Ordered, error) {
	revision := desired.Revision(fn.Spec.Function)
	compiled := built(fn) && fn.Status.LatestRevision == revision
	whole := has != nil && full(live) && (compiled || live.Status.ReadyReplicas > 0)
	if whole && told(fn, revision) {
		return has, &status.Ordered{Running: true}, nil
	}
	answer := r.builds.Ask(client.ObjectKeyFromObject(fn), revision, desired.Order(fn, r.Settings))
	if whole {
		return has, heard(answer), nil
	}
	ordered := &status.Ordered{Report: answer.Report, Trouble: answer.Trouble, Running: has != nil && compiled}
	ended := len(answer.Report) > 0
	switch {
	case answer.Binary != nil && ordered.Running:
		exchange, err := r.exchanges(ctx, fn, live, has, answer)
		if exchange {
			has = answer.Binary
		}
		return has, ordered, err
	case answer.Binary != nil && (ended || !compiled): // what has served is in no hurry
		return answer.Binary, ordered, nil
	case ended && !ordered.Running:
		return nil, ordered, nil
	}
	return has, ordered, nil
}

// told tells whether the status has how a revision was built, or why a source after
// it is refused.
func told(fn *v1beta1.Function, revision string) bool {
	b := fn.Status.Build
	return b != nil && (b.Revision == revision || b.Revision == "")
}

// heard is of an answer what matters where all pods are ready: how the build went
// that they run, and not what is wrong with another one.
func heard(answer build.Answer) *status.Ordered {
	if answer.Binary == nil {
		return &status.Ordered{Running: true}
	}
	return &status.Ordered{Running: true, Report: answer.Report}
}

// exchanges tells whether pods that have run with one binary of a source shall have
// another one: for as long as some of them serve, only if the others cannot have
// theirs. Replicas of the service may be of two versions.
func (r *Reconciler) exchanges(ctx context.Context, fn *v1beta1.Function, live *appsv1.Deployment, has *desired.Binary, answer build.Answer) (bool, error) {
	if answer.Binary == nil || len(answer.Report) == 0 {
		return false, nil
	}
	if live.Status.ReadyReplicas == 0 || answer.Binary.PublicKey != has.PublicKey {
		return true, nil
	}
	var pods corev1.PodList
	err := r.list(ctx, fn, &pods)
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool {
		return desired.TemplateOf(&pod) == desired.TemplateOf(&live.Spec.Template) && status.Starves(&pod)
	}), err
}

// full tells whether all pods of a Deployment are of its latest template and ready.
func full(d *appsv1.Deployment) bool {
	s := d.Status
	return s.ObservedGeneration >= d.Generation && d.Spec.Replicas != nil &&
		s.Replicas == *d.Spec.Replicas && s.UpdatedReplicas == s.Replicas && s.ReadyReplicas == s.Replicas
}

// held is the Deployment of a Function whose source does not compile, or not yet:
// its pods are those that it had, as many as are wanted now. Where the template is
// too new, because the linker has failed after all, or somebody has changed it, the
// revision that serves has its source still.
func (r *Reconciler) held(ctx context.Context, fn *v1beta1.Function, want *appsv1ac.DeploymentApplyConfiguration, tooNew bool) (*appsv1ac.DeploymentApplyConfiguration, error) {
	live, owned, err := r.ownedDeployment(ctx, fn)
	if err != nil || owned == nil {
		return nil, err
	}
	held, intact := desired.Held(want, owned)
	if intact && !tooNew {
		return r.revived(ctx, fn, live, held)
	}
	if fn.Status.ReadyRevision == desired.Revision(fn.Spec.Function) {
		return nil, nil
	}
	serving, err := r.withRevision(ctx, fn, fn.Status.ReadyRevision)
	switch {
	case err != nil:
		return nil, err
	case serving != nil:
		before, _, err := r.deployment(ctx, serving)
		return before, err
	case intact && live.Status.ReadyReplicas == 0: // no pod of it shall stay
		held.Spec.WithReplicas(0)
		return held, nil
	}
	return nil, nil
}

// revived is a Deployment that is held, with the binary that the service compiles the
// source of its pods to by now, where they cannot have theirs any more.
func (r *Reconciler) revived(ctx context.Context, fn *v1beta1.Function, live *appsv1.Deployment, held *appsv1ac.DeploymentApplyConfiguration) (*appsv1ac.DeploymentApplyConfiguration, error) {
	has := desired.BinaryIn(held)
	if has == nil || full(live) {
		return held, nil
	}
	answer, err := r.again(ctx, fn, desired.RevisionOf(&live.Spec.Template))
	if err != nil {
		return nil, err
	}
	if exchange, err := r.exchanges(ctx, fn, live, has, answer); err != nil || !exchange {
		return held, err
	}
	return desired.Bound(held, answer.Binary), nil
}

// again asks for the binary of an older revision, as long as there is its source.
func (r *Reconciler) again(ctx context.Context, fn *v1beta1.Function, revision string) (build.Answer, error) {
	key := client.ObjectKeyFromObject(fn)
	if answer, known := r.builds.Again(key, revision); known {
		return answer, nil
	}
	older, err := r.withRevision(ctx, fn, revision)
	if err != nil || older == nil {
		return build.Answer{}, err
	}
	return r.builds.Ask(key, revision, desired.Order(older, r.Settings)), nil
}

// settleOrders asks for the binaries of older revisions too whose pods are not all
// ready: what the service has lost, it needs the source for. Then it ends the orders
// that nobody has asked for this time.
func (r *Reconciler) settleOrders(ctx context.Context, fn *v1beta1.Function, seen status.Seen) error {
	var errs []error
	for _, set := range seen.ReplicaSets {
		revision := desired.RevisionOf(&set)
		shared := set.Labels[desired.StrategyLabel] == string(v1beta1.BuildShared)
		asked := seen.Ordered != nil && revision == desired.Revision(fn.Spec.Function)
		if shared && !asked && set.Status.ReadyReplicas < set.Status.Replicas {
			_, err := r.again(ctx, fn, revision)
			errs = append(errs, err)
		}
	}
	r.builds.Settle(client.ObjectKeyFromObject(fn))
	return errors.Join(errs...)
}
