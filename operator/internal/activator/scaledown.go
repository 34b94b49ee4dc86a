package activator

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/rule"
	"goless.io/operator/internal/activator/target"
)

const (
	// retry is after how long to ask again activators that do not listen yet.
	retry = time.Second

	// recheck is after how long to look again at a function that cannot fall asleep, because
	// it is in a rollout, say, or one cannot tell whether it is idle.
	recheck = 10 * time.Second
)

// scaleDown takes the next step of a function with ready pods towards sleep, and returns after
// how long to look again. Whatever speaks against sleep leaves the function awake.
func (r *Reconciler) scaleDown(ctx context.Context, t target.Target, s rule.Observation, found []pods.Pod, w *sliceWriter) (time.Duration, error) {
	if !s.ScaleDown.Scaled.IsZero() {
		return s.RecheckAfter(), nil
	}
	if !s.ScaleDown.Zero() && !w.withoutTraffic() {
		r.scaleDowns.Delete(t.Service)
		return retry, nil
	}
	idle, err := pods.Idle(ctx, found)
	if err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("the function stays awake", "reason", err.Error())
		r.scaleDowns.Delete(t.Service)
		return recheck, nil
	}
	step, after := rule.Next(s, t.SleepAfter, idle)
	switch step {
	case rule.Route:
		// The slices stay as they are until the function can fall asleep: each change of them
		// is a reason to look again at once.
		if err := w.ask(ctx); err != nil || !w.withoutTraffic() {
			return recheck, err
		}
		if err := w.write(ctx, w.addresses); err != nil {
			return 0, err
		}
		r.scaleDowns.Store(t.Service, rule.ScaleDown{Routed: time.Now()})
		return r.Settle, nil
	case rule.Stay:
		r.scaleDowns.Delete(t.Service)
		return retry, nil
	case rule.Scale:
		return r.scaleToZero(ctx, t, s.ScaleDown)
	case rule.Wait:
	}
	return after, nil
}

// scaleToZero ends the pods of a function, unless it is in a rollout.
func (r *Reconciler) scaleToZero(ctx context.Context, t target.Target, begun rule.ScaleDown) (time.Duration, error) {
	d, err := r.deployment(ctx, t)
	if err != nil {
		return 0, err
	}
	if d == nil || !settled(d) {
		r.scaleDowns.Delete(t.Service)
		return recheck, nil
	}
	begun.Scaled = time.Now()
	r.scaleDowns.Store(t.Service, begun) // before it is seen in the cache
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":{"replicas":0}}`, d.ResourceVersion)
	err = r.client.SubResource("scale").Patch(ctx, d, client.RawPatch(types.MergePatchType, patch))
	if err != nil {
		r.scaleDowns.Delete(t.Service)
		if apierrors.IsConflict(err) {
			return retry, nil // the Deployment has changed meanwhile
		}
		return 0, fmt.Errorf("scaling the Deployment to 0: %w", err)
	}
	ctrl.LoggerFrom(ctx).Info("the function sleeps", "function", t.Function.String())
	return r.Settle, nil
}

// settled tells that all pods of a Deployment are ready and of its latest template.
func settled(d *appsv1.Deployment) bool {
	s := d.Status
	return d.DeletionTimestamp == nil && d.Spec.Replicas != nil && *d.Spec.Replicas > 0 && s.ObservedGeneration >= d.Generation &&
		s.Replicas == *d.Spec.Replicas && s.UpdatedReplicas == s.Replicas && s.ReadyReplicas == s.Replicas
}
