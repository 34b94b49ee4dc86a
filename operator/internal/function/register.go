package function

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
	"goless.io/operator/internal/settings"
)

const (
	// reconcileTimeout frees a worker whose request, or whose wait for the
	// cache, hangs.
	reconcileTimeout = 30 * time.Second

	// convergeTimeout leaves some of that to tell what has hung.
	convergeTimeout = reconcileTimeout * 2 / 3

	// maxBackoff keeps the end of an outage from being noticed a quarter of an
	// hour late, as the default of 1000 s would.
	maxBackoff = 30 * time.Second
)

// Register makes the manager run r: for changes of a Function, of its objects,
// of what it refers to, and of the ReplicaSets and pods that the Deployment
// makes. Pods are watched
// because a Deployment does not show that an init container failed before ten
// minutes are over.
func (r *Reconciler) Register(mgr manager.Manager) error {
	ours := unhurried{handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &v1beta1.Function{}, handler.OnlyControllerOwner())}
	b := builder.ControllerManagedBy(mgr).
		Named("function").
		For(&v1beta1.Function{}, builder.WithPredicates(predicate.Or(
			predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{}, predicate.AnnotationChangedPredicate{}, r.outdated()))).
		Watches(&corev1.ConfigMap{}, ours).
		Watches(&appsv1.Deployment{}, ours).
		Watches(&corev1.Service{}, ours).
		Owns(&policyv1.PodDisruptionBudget{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Watches(&appsv1.ReplicaSet{}, handler.EnqueueRequestsFromMapFunc(labelled)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(labelled)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			NewQueue:                newFair,
			ReconciliationTimeout:   reconcileTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](10*time.Millisecond, maxBackoff),
		})
	if err := indexByFunction(mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("indexing what belongs to Functions: %w", err)
	}
	references, err := watchReferences(mgr, r.Settings, b)
	if err != nil {
		return fmt.Errorf("watching what Functions refer to: %w", err)
	}
	r.references = references
	if r.builds, err = watchBuilds(mgr, r.BuildService, b); err != nil {
		return fmt.Errorf("watching what the build service answers: %w", err)
	}
	b.WatchesRawSource(r.sight())
	return b.Complete(reconcile.Func(r.look))
}

// look reads a Function and reconciles it. The orders of one that is no more end
// here, and by no event: a look at it may be under way then, and order more.
func (r *Reconciler) look(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	r.looks.Store(true)
	var fn v1beta1.Function
	err := r.Client.Get(ctx, request.NamespacedName, &fn)
	if apierrors.IsNotFound(err) {
		r.builds.Forget(request.NamespacedName)
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	return r.Reconcile(ctx, &fn)
}

// unhurried lets what is new wait: mostly the operator has just made it. Functions
// that have nothing yet come first.
type unhurried struct{ handler.EventHandler }

func (u unhurried) Create(ctx context.Context, e event.CreateEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	e.IsInInitialList = true // that has a low priority
	u.EventHandler.Create(ctx, e, queue)
}

// byFunction is the field by which what carries a Function's label is found. A
// label selector would look at everything in the namespace.
const byFunction = "metadata.labels.function"

func indexByFunction(indexer client.FieldIndexer) error {
	function := func(obj client.Object) []string {
		if name := obj.GetLabels()[desired.FunctionLabel]; name != "" {
			return []string{name}
		}
		return nil
	}
	var errs []error
	for _, kind := range []client.Object{
		&corev1.ConfigMap{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &appsv1.ReplicaSet{}, &corev1.Pod{},
	} {
		errs = append(errs, indexer.IndexField(context.Background(), kind, byFunction, function))
	}
	return errors.Join(errs...)
}

// labelled maps an object to the Function that its label names.
func labelled(_ context.Context, obj client.Object) []reconcile.Request {
	name := obj.GetLabels()[desired.FunctionLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
}

// ManagerOptions are what the Reconciler relies on in its manager. What does not
// belong to Functions stays out of the operator's memory; managed fields stay
// where ensure reads them. A reconcile that follows a write sees it: with a stale
// cache a Function could show as ready that is not. With several namespaces
// controller-runtime cannot tell whether a cache is stale: there the template and
// the generation of a Deployment have to do.
func ManagerOptions(s settings.Settings) (manager.Options, error) {
	scheme := runtime.NewScheme()
	label, err := labels.NewRequirement(desired.FunctionLabel, selection.Exists, nil)
	if err := errors.Join(err, clientgoscheme.AddToScheme(scheme), v1beta1.AddToScheme(scheme)); err != nil {
		return manager.Options{}, err
	}
	ours := labels.NewSelector().Add(*label)
	return manager.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultNamespaces: namespaces(s),
			ByObject: map[client.Object]cache.ByObject{
				&v1beta1.Function{}:             {Transform: cache.TransformStripManagedFields()},
				&corev1.ConfigMap{}:             {Label: ours, Transform: withoutData},
				&appsv1.Deployment{}:            {Label: ours, Transform: withoutOthers},
				&corev1.Service{}:               {Label: ours, Transform: withoutOthers},
				&policyv1.PodDisruptionBudget{}: {Label: ours, Transform: withoutOthers},
				&networkingv1.NetworkPolicy{}:   {Label: ours, Transform: withoutOthers},
				&appsv1.ReplicaSet{}:            {Label: ours, Transform: withoutTemplate},
				&corev1.Pod{}:                   {Label: ours, Transform: withoutSpec},
			},
			ReaderFailOnMissingInformer: true,
		},
		Client: client.Options{
			FieldOwner: FieldOwner,
			Cache:      &client.CacheOptions{EnableReadYourWritesConsistency: new(len(s.Namespaces) < 2)},
		},
	}, nil
}

// namespaces are those that the cache holds; nil for all.
func namespaces(s settings.Settings) map[string]cache.Config {
	var all map[string]cache.Config
	for _, name := range s.Namespaces {
		if all == nil {
			all = map[string]cache.Config{}
		}
		all[name] = cache.Config{}
	}
	return all
}
