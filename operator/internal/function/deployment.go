package function

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/status"
)

// deployment is what the Deployment of a Function should be; nil while there is
// nothing that could run. A function that has been built is not restarted for what
// the operator brings by itself: a new image, say. One that has not takes all that
// may help it. Where the build service compiles, the second result has what it says.
func (r *Reconciler) deployment(ctx context.Context, fn *v1beta1.Function) (*appsv1ac.DeploymentApplyConfiguration, *status.Ordered, error) {
	values, err := r.references.hash(ctx, fn)
	if err != nil {
		return nil, nil, err
	}
	live, owned, err := r.ownedDeployment(ctx, fn)
	if err != nil {
		return nil, nil, err
	}
	inPod := desired.Deployment(fn, r.Settings, values, nil)
	var kept *appsv1ac.DeploymentApplyConfiguration
	if r.Settings.Rollout != settings.Always && built(fn) {
		kept, _ = desired.Kept(inPod, owned, fn.Status.ObservedGeneration == fn.Generation)
	}
	has, shared := desired.BinaryOf(owned, fn.Spec.Function), desired.Strategy(fn, r.Settings) == v1beta1.BuildShared
	switch {
	case kept != nil && has == nil:
		return kept, nil, nil
	case kept == nil && !shared:
		return inPod, nil, nil
	}
	binary, ordered, err := r.order(ctx, fn, live, has)
	switch {
	case err != nil:
		return nil, ordered, err
	case binary == nil:
		held, err := r.held(ctx, fn, inPod, has != nil)
		return held, ordered, err
	case kept != nil && *binary == *has:
		return kept, ordered, nil
	case !shared: // the setting has changed, and what the pods have cannot be had any more
		return inPod, nil, nil
	}
	return desired.Deployment(fn, r.Settings, values, binary), ordered, nil
}

// ensureDeployment makes the Deployment what it should be.
func (r *Reconciler) ensureDeployment(ctx context.Context, fn *v1beta1.Function, want *appsv1ac.DeploymentApplyConfiguration) error {
	if want == nil {
		return nil
	}
	var live appsv1.Deployment
	if err := ensure(ctx, r, fn, want, &live, appsv1ac.ExtractDeployment); err != nil {
		return err
	}
	if desired.TemplateIn(want) != desired.TemplateOf(&live.Spec.Template) {
		r.Metrics.RolledOut()
	}
	return nil
}

// ownedDeployment is the Function's Deployment as the cache has it, and the fields
// of it that the operator has written; nil when there is none.
func (r *Reconciler) ownedDeployment(ctx context.Context, fn *v1beta1.Function) (*appsv1.Deployment, *appsv1ac.DeploymentApplyConfiguration, error) {
	var live appsv1.Deployment
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(fn), &live); client.IgnoreNotFound(err) != nil {
		return nil, nil, fmt.Errorf("reading Deployment %q: %w", fn.Name, err)
	}
	if !metav1.IsControlledBy(&live, fn) {
		return nil, nil, nil
	}
	ownFields(&live)
	owned, err := appsv1ac.ExtractDeployment(&live, FieldOwner)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the managed fields of Deployment %q: %w", live.Name, err)
	}
	return &live, owned, nil
}

// built tells whether the last source that was not refused has compiled.
func built(fn *v1beta1.Function) bool {
	c := meta.FindStatusCondition(fn.Status.Conditions, v1beta1.ConditionBuilt)
	return c != nil && (c.Reason == v1beta1.ReasonBuilt || c.Reason == v1beta1.ReasonInvalidSource)
}
