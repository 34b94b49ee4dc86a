package activator

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/routing"
	"goless.io/operator/internal/workload"
)

// scaleDown takes the next step to scale a function with ready pods to zero, and returns the
// requeue delay. It cancels the scale-down if a peer, a pod or the Deployment is not in the
// required state. The status a of the peers is set if a scale-down is in progress.
func (r *Reconciler) scaleDown(ctx context.Context, rt *route, o routing.Observation, found []backend.Pod, a peersStatus) (time.Duration, error) {
	if !o.ScaleDown.ScaledAt.IsZero() {
		return 0, nil // the pods are about to terminate
	}
	if o.ScalingDown() && !a.idle() {
		r.scaleDowns.Delete(rt.Service)
		return retryInterval, nil
	}
	if len(o.Ready) < len(found) || inRollout(rt, found) {
		r.scaleDowns.Delete(rt.Service)
		return recheckInterval, nil // a pod is starting or terminating, or waits for its verification
	}
	// The result from the pods may be some seconds older than the status of the activators. A
	// request that an activator has forwarded since then is not lost: the activator counts it until
	// the response ends, and pods drain before they terminate.
	answer, ok, wait := r.poller.Take(rt.Service, found)
	if !ok {
		return wait, nil
	}
	if answer.Err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("cannot scale the function to zero", "reason", answer.Err.Error())
		r.scaleDowns.Delete(rt.Service)
		return retryInterval, nil //nolint:nilerr // cannot scale the function to zero, and an annotation of its EndpointSlices says why
	}
	o.Now = answer.At // the time to which the result refers
	step, after := routing.NextStep(o, rt.SleepAfter, answer.Idle)
	switch step {
	case routing.Route:
		return r.routeToActivators(ctx, rt)
	case routing.Cancel:
		r.scaleDowns.Delete(rt.Service)
		return retryInterval, nil
	case routing.ScaleToZero:
		return r.scaleToZero(ctx, rt, o.ScaleDown)
	case routing.Wait:
	}
	return after, nil
}

// inRollout reports whether a rollout is being verified: pods of both versions exist.
func inRollout(rt *route, found []backend.Pod) bool {
	if rt.Verify == nil {
		return false
	}
	isNew := func(p backend.Pod) bool { return p.Template == rt.Verify.Template }
	isOld := func(p backend.Pod) bool { return !isNew(p) }
	return slices.ContainsFunc(found, isNew) && slices.ContainsFunc(found, isOld)
}

// routeToActivators starts a scale-down if all activators listen for the function and none has a
// request for it. Otherwise it leaves the EndpointSlices unchanged: each write of them triggers a
// reconcile.
func (r *Reconciler) routeToActivators(ctx context.Context, rt *route) (time.Duration, error) {
	a, err := r.queryPeers(ctx, rt)
	if err != nil || !a.idle() {
		return recheckInterval, err
	}
	if err := r.writeSlices(ctx, rt, a.endpoints); err != nil {
		return 0, err
	}
	r.scaleDowns.Store(rt.Service, routing.ScaleDown{RoutedAt: time.Now()})
	return r.Settle, nil
}

// scaleToZero scales the Deployment of a function to zero, unless a rollout is in progress.
func (r *Reconciler) scaleToZero(ctx context.Context, rt *route, scaleDown routing.ScaleDown) (time.Duration, error) {
	d, err := backend.Deployment(ctx, r.live, rt.Backend)
	if err != nil {
		return 0, err
	}
	if d == nil || !workload.AllAvailable(d) {
		r.scaleDowns.Delete(rt.Service)
		return recheckInterval, nil
	}
	// Stored before the scale is written, because the next reconcile may already see a terminating
	// pod.
	scaleDown.ScaledAt = time.Now()
	r.scaleDowns.Store(rt.Service, scaleDown)
	if err := backend.Scale(ctx, r.client, d, 0); err != nil {
		r.scaleDowns.Delete(rt.Service)
		if apierrors.IsConflict(err) {
			return retryInterval, nil // the Deployment has changed
		}
		return 0, err
	}
	ctrl.LoggerFrom(ctx).Info("the function sleeps", "function", rt.Function.String())
	return r.Settle, nil
}
