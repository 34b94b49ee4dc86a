package function

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/apply"
	"goless.io/operator/internal/buildclient"
	"goless.io/operator/internal/class"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/observe"
	"goless.io/operator/internal/references"
	"goless.io/operator/internal/settings"
	"goless.io/operator/internal/validation"
)

const (
	// workers is the number of Functions that are reconciled concurrently. A worker mostly waits
	// for the API server.
	workers = 16

	// reconcileTimeout frees a worker whose request, or whose wait for the cache, hangs.
	reconcileTimeout = 15 * time.Second

	// applyTimeout is shorter, to leave time for reporting a hanging request in the status. It is
	// longer than the 10 s default timeout of an admission webhook: a webhook that never answers
	// and is then ignored delays a Function but does not block it.
	applyTimeout = 12 * time.Second

	// maxBackoff bounds the delay until the end of an outage is detected. The default of
	// controller-runtime is 1000 s.
	maxBackoff = 30 * time.Second
)

// Register adds r to the manager, with watches of Functions, their objects, the objects that they
// refer to, and the ReplicaSets and pods of their Deployments. Pods are watched because a
// Deployment reports a failed init container only after ten minutes.
func (r *Reconciler) Register(mgr manager.Manager) error {
	b := builder.ControllerManagedBy(mgr).
		Named("function").
		For(&v1beta1.Function{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}))).
		Owns(&corev1.ConfigMap{}).
		Owns(&appsv1.Deployment{}).
		Owns(&appsv1.ControllerRevision{}).
		Owns(&batchv1.Job{}).
		Owns(&corev1.Service{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}, builder.WithPredicates(autoscalerChanged)).
		Watches(&autoscalingv2.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(functionOfScaleTarget), builder.WithPredicates(autoscalerChanged)).
		Watches(&appsv1.ReplicaSet{}, handler.EnqueueRequestsFromMapFunc(functionOfLabel)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(functionOfLabel)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   reconcileTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](10*time.Millisecond, maxBackoff),
		})
	if r.Settings.NetworkPolicy {
		b.Watches(&networkingv1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.inNamespaceOf))
	}
	if err := observe.Index(mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing objects by owner: %w", err)
	}
	var err error
	if r.references, err = references.Watch(mgr, observe.Namespaces(r.Settings), r.Settings, b); err != nil {
		return fmt.Errorf("watching referenced Secrets and ConfigMaps: %w", err)
	}
	r.orders = buildclient.New(&buildclient.Service{
		URL: cmp.Or(r.BuildService, buildclient.URL(r.Namespace)), Namespace: r.Namespace, Live: mgr.GetAPIReader(), Client: mgr.GetClient(),
	})
	b.WatchesRawSource(r.orders.Changed())
	if err := mgr.Add(r.orders); err != nil {
		return err
	}
	r.conflicts = workqueue.NewTypedItemExponentialFailureRateLimiter[client.ObjectKey](minConflictPause, maxConflictPause)
	classes, err := class.New(mgr, r.Settings)
	if err == nil {
		err = classes.Register(mgr, b)
	}
	if err != nil {
		return fmt.Errorf("watching FunctionClasses: %w", err)
	}
	activators, err := observe.WatchActivators(mgr, r.Namespace, b)
	if err != nil {
		return fmt.Errorf("watching the activator: %w", err)
	}
	r.sources = &observe.Sources{Live: r.Live}
	r.observer = &observe.Observer{
		Client: r.Client, Live: r.Live, Sources: r.sources, Settings: r.Settings, Classes: classes,
		Accounts: observe.NewAccounts(validation.ServiceAccounts{Client: r.Client, Namespace: r.Namespace}), References: r.references, Orders: r.orders, Activators: activators,
	}
	r.applier = &apply.Applier{Client: r.Client, Live: r.Live, Sources: r.sources, Orders: r.orders, Metrics: r.Metrics}
	return b.Complete(reconcile.Func(r.reconcileNamed))
}

// autoscalerChanged accepts changes to the spec and the metadata of a HorizontalPodAutoscaler. Its
// status changes every 15 seconds and is not used.
var autoscalerChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, now := e.ObjectOld.(*autoscalingv2.HorizontalPodAutoscaler).DeepCopy(), e.ObjectNew.(*autoscalingv2.HorizontalPodAutoscaler)
	before.Status, before.ResourceVersion, before.ManagedFields = now.Status, now.ResourceVersion, now.ManagedFields
	return !equality.Semantic.DeepEqual(before, now)
}}

// reconcileNamed reads a Function from the cache and reconciles it. It also removes the state of a
// deleted Function. A handler of the deletion could not do that, because it may run while the
// Function is being reconciled and new state is added.
func (r *Reconciler) reconcileNamed(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var fn v1beta1.Function
	err := r.Client.Get(ctx, request.NamespacedName, &fn)
	if apierrors.IsNotFound(err) {
		r.conflicts.Forget(request.NamespacedName)
		r.references.Forget(request.NamespacedName)
		r.orders.Keep(request.NamespacedName, nil)
		r.sources.Forget(request.NamespacedName)
		r.history.forget(request.NamespacedName)
		r.Metrics.Forget(request.NamespacedName)
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return r.Reconcile(ctx, &fn)
}

// functionOfLabel maps an object to the Function in its label.
func functionOfLabel(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[desired.FunctionLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// functionOfScaleTarget maps a HorizontalPodAutoscaler of another owner to the Function whose Deployment it
// may scale.
func functionOfScaleTarget(_ context.Context, autoscaler client.Object) []reconcile.Request {
	name := observe.ScaledDeployment(autoscaler)
	if name == "" || observe.OfAFunction(autoscaler) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: autoscaler.GetNamespace(), Name: name}}}
}

// ManagerOptions returns the options of the Reconciler's manager. A read waits until the cache
// contains the last write: with a stale cache, an unready Function could be reported as ready. With
// several namespaces, controller-runtime cannot detect a stale cache. In that case, the reconciler
// relies on its own checks: it compares the template and the generation of the Deployment.
func ManagerOptions(s settings.Settings) (manager.Options, error) {
	scheme := runtime.NewScheme()
	cached, err := observe.CacheOptions(s)
	if err := errors.Join(err, clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return manager.Options{}, err
	}
	return manager.Options{
		Scheme: scheme,
		Cache:  cached,
		Client: client.Options{
			FieldOwner: desired.FieldOwner,
			Cache:      &client.CacheOptions{EnableReadYourWritesConsistency: new(len(s.Namespaces) < 2)},
		},
	}, nil
}

// inNamespaceOf maps a NetworkPolicy that does not belong to a Function to the Functions of its
// namespace.
func (r *Reconciler) inNamespaceOf(ctx context.Context, policy client.Object) []reconcile.Request {
	if observe.OfAFunction(policy) {
		return nil
	}
	var functions v1beta1.FunctionList
	if err := r.Client.List(ctx, &functions, client.InNamespace(policy.GetNamespace()), client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	for _, fn := range functions.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&fn)})
	}
	return requests
}
