package function

import (
	"cmp"
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/build"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/status"
)

// watchBuilds makes a controller look at a Function when the build service has
// answered an order of it.
func watchBuilds(mgr manager.Manager, url string, b *builder.Builder) (*build.Orders, error) {
	orders := build.New(&build.Service{URL: cmp.Or(url, build.URL), Live: mgr.GetAPIReader(), Client: mgr.GetClient()})
	b.Watches(&v1beta1.Function{}, handler.Funcs{
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			orders.Forget(client.ObjectKeyFromObject(e.Object))
		},
	})
	b.WatchesRawSource(orders.Changed())
	return orders, mgr.Add(orders)
}

// order finds the binary of a Function: the one that its pods have, has, as long as
// all of them are ready; nobody has to be asked then. Where replicas are missing the
// service may have lost it, or compile this source to another one by now. The binary
// is nil when there is none yet.
func (r *Reconciler) order(fn *v1beta1.Function, live *appsv1.Deployment, has *desired.Binary) (*desired.Binary, *status.Ordered) {
	revision := desired.Revision(fn.Spec.Function)
	compiled := built(fn) && fn.Status.LatestRevision == revision
	proven := has != nil && (compiled || full(live) && live.Status.ReadyReplicas > 0)
	if proven && full(live) {
		return has, &status.Ordered{Running: true}
	}
	answer := r.builds.Ask(client.ObjectKeyFromObject(fn), revision, desired.Order(fn, r.Settings))
	ordered := &status.Ordered{Report: answer.Report, Trouble: answer.Trouble, Running: proven}
	switch ended := len(answer.Report) > 0; {
	case answer.Binary != nil && (ended || !compiled): // what has served is in no hurry
		return answer.Binary, ordered
	case ended && !proven:
		return nil, ordered
	}
	return has, ordered
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
		return held, nil
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

// settleOrders asks for the binaries of older revisions too whose pods are not all
// ready: what the service has lost, it needs the source for. Then it ends the orders
// that nobody has asked for this time.
func (r *Reconciler) settleOrders(ctx context.Context, fn *v1beta1.Function, seen status.Seen) error {
	var errs []error
	key := client.ObjectKeyFromObject(fn)
	for _, set := range seen.ReplicaSets {
		revision := desired.RevisionOf(&set)
		shared := set.Labels[desired.StrategyLabel] == string(v1beta1.BuildShared)
		asked := seen.Ordered != nil && revision == desired.Revision(fn.Spec.Function)
		if !shared || asked || set.Status.ReadyReplicas >= set.Status.Replicas || r.builds.Again(key, revision) {
			continue
		}
		older, err := r.withRevision(ctx, fn, revision)
		if older != nil {
			r.builds.Ask(key, revision, desired.Order(older, r.Settings))
		}
		errs = append(errs, err)
	}
	r.builds.Settle(key)
	return errors.Join(errs...)
}
