package activator

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/rule"
	"goless.io/operator/internal/workload"
)

// scaleDown takes the next step towards sleep of a function with ready pods, and returns after how
// long to look again. Whatever speaks against sleep leaves the function awake. The answers are
// those of the activators if the function is falling asleep.
func (r *Reconciler) scaleDown(ctx context.Context, rt *route, o rule.Observation, found []pods.Pod, a answers) (time.Duration, error) {
	if !o.ScaleDown.Scaled.IsZero() {
		return 0, nil // its pods are about to end
	}
	if o.FallingAsleep() && !a.quiet() {
		r.scaleDowns.Delete(rt.Service)
		return retry, nil
	}
	if len(o.Ready) < len(found) {
		r.scaleDowns.Delete(rt.Service)
		return recheck, nil // some are starting, or ending
	}
	// The answer of the pods may be some seconds older than that of the activators. A request that has left
	// an activator meanwhile is not lost: it is counted there until its answer ends, and pods drain.
	answer, ok, wait := r.polls.Take(rt.Service, found)
	if !ok {
		return wait, nil
	}
	if answer.Err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("the function stays awake", "reason", answer.Err.Error())
		r.scaleDowns.Delete(rt.Service)
		return retry, nil //nolint:nilerr // the function stays awake, and the slices say why
	}
	o.Now = answer.At // what has happened since then is not known
	step, after := rule.Next(o, rt.SleepAfter, answer.Idle)
	switch step {
	case rule.Route:
		return r.routeToActivators(ctx, rt)
	case rule.Cancel:
		r.scaleDowns.Delete(rt.Service)
		return retry, nil
	case rule.ScaleToZero:
		return r.scaleToZero(ctx, rt, o.ScaleDown)
	case rule.Wait:
	}
	return after, nil
}

// routeToActivators begins a scale-down, if all activators listen for the function and none has a
// request for it. Otherwise the slices stay as they are, because each change of them is a reason to
// look again at once.
func (r *Reconciler) routeToActivators(ctx context.Context, rt *route) (time.Duration, error) {
	a, err := r.askActivators(ctx, rt)
	if err != nil || !a.quiet() {
		return recheck, err
	}
	if err := r.writeSlices(ctx, rt, a.endpoints); err != nil {
		return 0, err
	}
	r.scaleDowns.Store(rt.Service, rule.ScaleDown{Routed: time.Now()})
	return r.Settle, nil
}

// scaleToZero ends the pods of a function, unless it is in a rollout.
func (r *Reconciler) scaleToZero(ctx context.Context, rt *route, begun rule.ScaleDown) (time.Duration, error) {
	d, err := r.deployment(ctx, rt.Target)
	if err != nil {
		return 0, err
	}
	if d == nil || !workload.AllAvailable(d) {
		r.scaleDowns.Delete(rt.Service)
		return recheck, nil
	}
	// This is stored before the scale is written: the next reconcile may see an ending pod at once.
	begun.Scaled = time.Now()
	r.scaleDowns.Store(rt.Service, begun)
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"replicas":0}}`, d.ResourceVersion)
	err = r.client.SubResource("scale").Patch(ctx, d, client.RawPatch(types.MergePatchType, patch))
	if err != nil {
		r.scaleDowns.Delete(rt.Service)
		if apierrors.IsConflict(err) {
			return retry, nil // the Deployment has changed meanwhile
		}
		return 0, fmt.Errorf("scaling the Deployment to 0: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("the function sleeps", "function", rt.Function.String())
	return r.Settle, nil
}
