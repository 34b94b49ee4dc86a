// Package apply writes the changes in a plan.Plan to the cluster, with server-side apply where that
// is possible. It writes only objects that belong to the Function. Adopt makes the Function the
// owner of objects that a restore has left without an owner.
package apply

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	batchv1ac "k8s.io/client-go/applyconfigurations/batch/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/builder/handler"
	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/metrics"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/plan"
)

// Applier writes the changes in a plan.Plan to the cluster.
type Applier struct {
	// Client writes objects.
	Client client.Client

	// Live reads objects that are not in the cache from the API server: objects without the label
	// goless.io/function.
	Live client.Reader

	// Sources reads sources from the API server.
	Sources *observe.Sources

	// Orders sends build requests to the build service.
	Orders *buildclient.Orders

	// Metrics counts rollouts.
	Metrics *metrics.Metrics
}

// Apply applies a plan that was made from a Snapshot. It continues after an error, because no object
// requires another one to exist, except the Job of tests, which is created after its NetworkPolicy.
// The order to the build service is sent first, because a build takes long. The source is stored
// before the pods that compile it are created, and the ControllerRevision is written before the pods
// start. The Deployment is not changed if the spec has changed in the meantime.
func (a *Applier) Apply(ctx context.Context, fn *v1beta1.Function, seen *observe.Snapshot, p *plan.Plan) Outcome {
	outcome := Outcome{Deployment: own(fn, seen.Deployment), Service: seen.Service, ForeignDeployment: foreign(fn, seen.Deployment)}
	outcome.addOptional(v1beta1.ReasonReferenceUnreadable, p.ValuesErr)
	outcome.add(p.DeploymentErr)
	outcome.add(a.orders(ctx, fn, seen, p))
	outcome.add(a.tests(ctx, fn, seen, p))
	if stored := a.source(ctx, fn, seen, p.Source); desired.BinaryIn(p.Deployment) != nil {
		outcome.addOptional(v1beta1.ReasonSourceNotStored, stored)
	} else {
		outcome.add(stored)
	}
	recordErr := a.record(ctx, fn, seen, p, &outcome)
	outcome.addOptional(v1beta1.ReasonRevisionNotRecorded, recordErr)
	updated := !apierrors.IsConflict(recordErr) && a.deployment(ctx, fn, seen, p, &outcome)
	if p.Service != nil {
		if !updated {
			keepAnnotations(p.Service, seen.Service)
		}
		applied, err := ensure(ctx, a, fn, p.Service, seen.Service, corev1ac.ExtractService)
		outcome.Service = applied
		outcome.add(err)
	}
	if p.Budget != nil {
		_, err := ensure(ctx, a, fn, p.Budget, seen.Budget, policyv1ac.ExtractPodDisruptionBudget)
		outcome.addOptional(v1beta1.ReasonDisruptionBudgetFailed, ignoreNotOwned(err))
	}
	if p.NetworkPolicy != nil {
		_, err := ensure(ctx, a, fn, p.NetworkPolicy, seen.NetworkPolicy, networkingv1ac.ExtractNetworkPolicy)
		outcome.addOptional(v1beta1.ReasonNetworkPolicyFailed, ignoreNotOwned(err))
	}
	if p.Autoscaler != nil {
		_, err := ensure(ctx, a, fn, p.Autoscaler, seen.Autoscaler, autoscalingv2ac.ExtractHorizontalPodAutoscaler)
		outcome.addOptional(v1beta1.ReasonAutoscalerFailed, err)
	}
	var leftovers []error
	for _, obj := range p.Delete {
		leftovers = append(leftovers, a.remove(ctx, obj))
	}
	outcome.addOptional(v1beta1.ReasonCleanupFailed, errors.Join(leftovers...))
	if p.AutoscalerConflict != nil { // after the failures of the operator, of which the first is the reason in its metrics
		outcome.Degraded = append(outcome.Degraded, *p.AutoscalerConflict)
	}
	outcome.ForeignService = foreign(fn, outcome.Service)
	outcome.Service = service(fn, outcome.Service, seen.Services)
	return outcome
}

// deployment scales and ensures the Deployment of a plan, and reports whether it is as planned.
func (a *Applier) deployment(ctx context.Context, fn *v1beta1.Function, seen *observe.Snapshot, p *plan.Plan, outcome *Outcome) bool {
	// If the replicas could not be handed over, an apply without them would reset them.
	err := a.scale(ctx, seen.Deployment, p.Scale)
	outcome.add(err)
	if p.Deployment == nil || p.DeploymentDelay > 0 || err != nil {
		return false
	}
	if p.AwaitsBuild && seen.Deployment.UID == "" {
		found, created, err := a.createOrFind(ctx, p.Deployment, seen.Deployment)
		if created {
			a.Metrics.RolledOut()
		}
		outcome.Deployment, outcome.ForeignDeployment = own(fn, found.(*appsv1.Deployment)), foreign(fn, found.(*appsv1.Deployment))
		outcome.add(err)
		return created
	}
	applied, err := ensure(ctx, a, fn, p.Deployment, seen.Deployment, seen.ExtractDeployment)
	if err == nil && desired.TemplateIn(p.Deployment) != desired.TemplateOf(&seen.Deployment.Spec.Template) {
		a.Metrics.RolledOut()
	}
	if outcome.Deployment == nil {
		outcome.Deployment, outcome.ForeignDeployment = own(fn, applied), foreign(fn, applied)
	}
	outcome.add(err)
	return err == nil
}

// keepAnnotations keeps those annotations of a Service that match the Deployment that could not be
// changed. For a sleeping function, the activator receives the requests: until the Deployment has
// replicas, nothing else can serve them. For a rollout that is being verified, the activator keeps the
// counts.
func keepAnnotations(want *corev1ac.ServiceApplyConfiguration, live *corev1.Service) {
	for _, name := range []string{v1beta1.SleepAfterAnnotation, v1beta1.VerifyLimitsAnnotation} {
		if value, ok := live.Annotations[name]; ok && want.Annotations[name] == "" {
			want.WithAnnotations(map[string]string{name: value})
		}
	}
}

// service returns the Service that the Function should have, or else one of a former spec; nil if
// there is none.
func service(fn *v1beta1.Function, named *corev1.Service, all []corev1.Service) *corev1.Service {
	if named = own(fn, named); named != nil || len(all) == 0 {
		return named
	}
	return &all[0]
}

// tests creates the Job that runs the tests of a Function, after the NetworkPolicy of its pod.
func (a *Applier) tests(ctx context.Context, fn *v1beta1.Function, seen *observe.Snapshot, p *plan.Plan) error {
	if p.TestPolicy != nil {
		if _, err := ensure(ctx, a, fn, p.TestPolicy, seen.TestPolicy, networkingv1ac.ExtractNetworkPolicy); err != nil {
			return err
		}
	}
	if p.TestJob == nil {
		return nil
	}
	_, err := ensure(ctx, a, fn, p.TestJob, &batchv1.Job{}, batchv1ac.ExtractJob)
	return err
}

// orders sends the orders of a plan to the build service and cancels all others of the Function. If
// the plan could not be made, its orders are unknown and none is canceled. An order does not keep
// the source of its Function; it reads the source when it is sent again. The source is not read for
// a binary that pods already have, unless the service has lost it.
func (a *Applier) orders(ctx context.Context, fn *v1beta1.Function, seen *observe.Snapshot, p *plan.Plan) error {
	key := client.ObjectKeyFromObject(fn)
	var wanted []string
	var errs []error
	add := func(ordered *v1beta1.Function, tests bool, built string) {
		name := desired.OrderName(ordered, tests)
		wanted = append(wanted, name)
		if a.Orders.Has(key, name, desired.Order(ordered, seen.Settings, tests)) {
			return
		}
		if built == "" {
			if err := a.Sources.Load(ctx, ordered); err != nil {
				errs = append(errs, err)
				return
			}
		}
		a.Orders.Add(key, name, desired.Order(ordered, seen.Settings, tests), built, a.Sources.Loader(ordered))
	}
	for _, ordered := range p.Orders {
		built := ""
		if binary := desired.BinaryFor(seen.Applied(), ordered); binary != nil {
			built = binary.Key
		}
		add(ordered, false, built)
	}
	if p.TestOrder != nil {
		add(p.TestOrder, true, "")
	}
	if p.DoubtOrders {
		a.Orders.Doubt(key)
	}
	if p.DeploymentErr == nil {
		a.Orders.Keep(key, wanted)
	}
	return errors.Join(errs...)
}

// source ensures the ConfigMap of a source. It compares the summary of the ConfigMap in the cache,
// and reads the source from the API server only if the ConfigMap differs or does not exist.
func (a *Applier) source(ctx context.Context, fn *v1beta1.Function, seen *observe.Snapshot, source *v1beta1.Function) error {
	if source == nil {
		return nil
	}
	live := seen.SourceOf(source)
	want := desired.ConfigMap(source).WithData(map[string]string{handler.Filename: observe.CachedSource(desired.Summary(source))})
	same, err := isApplied(fn, want, live, corev1ac.ExtractConfigMap)
	if same || err != nil {
		return err
	}
	if err := a.Sources.Load(ctx, source); err != nil {
		return err
	}
	_, err = ensure(ctx, a, fn, desired.ConfigMap(source), live, corev1ac.ExtractConfigMap)
	return err
}
