package activator

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/autoscale"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/routing"
	"goless.io/operator/internal/activator/verify"
)

// Cache indexes: Services by Function name, and EndpointSlices by Service name.
const (
	byFunction = "metadata.labels.function"
	byService  = "metadata.labels.service"
)

// ManagerOptions returns the options of a manager whose cache contains what the activator reads:
// the Services and pods of functions, and the EndpointSlices that the activator manages. If
// namespaces is nil, the cache contains all namespaces.
func ManagerOptions(namespaces map[string]cache.Config) (manager.Options, error) {
	scheme := runtime.NewScheme() // smaller than the scheme of client-go, which registers all built-in types
	ofFunctions, err := labels.Parse(v1beta1.FunctionLabel)
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, discoveryv1.AddToScheme, appsv1.AddToScheme, autoscalingv1.AddToScheme, v1beta1.AddToScheme,
	} {
		err = errors.Join(err, add(scheme))
	}
	return manager.Options{
		Scheme: scheme,
		Cache: cache.Options{
			DefaultNamespaces: namespaces,
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Pod{}:                {Label: ofFunctions, Transform: backend.TrimPod},
				&corev1.Service{}:            {Label: ofFunctions},
				&discoveryv1.EndpointSlice{}: {Label: labels.SelectorFromSet(labels.Set{discoveryv1.LabelManagedBy: routing.Manager})},
			},
			DefaultTransform:            cache.TransformStripManagedFields(),
			ReaderFailOnMissingInformer: true,
		},
		Client:                 client.Options{FieldOwner: "goless-activator"},
		Metrics:                metricsserver.Options{BindAddress: "0"}, // the admin port serves them
		HealthProbeBindAddress: "0",
	}, err
}

// maxBackoff is the longest delay between two attempts to reconcile a Service, and so the longest
// time until the activator notices the end of an outage. The default of controller-runtime is
// 1000s.
const maxBackoff = 30 * time.Second

// Register adds three controllers to the manager: r, a Scaler (package autoscale) and a Verifier
// (package verify). r reconciles a Service when:
//
//   - the Service, an EndpointSlice that it owns, or a pod of its function changes
//   - the Poller has a result for its function, the Scaler cannot scale it or can again, or the
//     Verifier has a report
//   - a pod of the activator changes, or this replica becomes the leader (all Services)
func (r *Reconciler) Register(ctx context.Context, mgr manager.Manager) error {
	r.client, r.live, r.ports, r.poller = mgr.GetClient(), mgr.GetAPIReader(), routing.NewPorts(), backend.NewPoller()
	activators, err := backend.CacheActivators(mgr, r.Namespace)
	if err != nil {
		return err
	}
	r.activators = activators
	r.election, err = newElection(mgr.GetConfig(), r.Namespace, r.Name, r.reset)
	if err := errors.Join(err, backend.AddIndex(ctx, mgr.GetFieldIndexer()), index(ctx, mgr.GetFieldIndexer())); err != nil {
		return err
	}
	// When this replica becomes the leader, each controller looks at all Services.
	onStart := func() source.Source {
		return source.Channel(r.election.notify(), handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ struct{}) []reconcile.Request { return r.services(ctx) }))
	}
	r.scaler = autoscale.New(r.client, r.live, r.Pods, r.ScalingMetrics, r.IsLeader)
	err = builder.ControllerManagedBy(mgr).
		Named("autoscale").
		For(&corev1.Service{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.servicesOfPod)).
		WatchesRawSource(onStart()).
		WithOptions(options(concurrentEvaluations)).
		Complete(r.scaler)
	if err != nil {
		return err
	}
	r.verifier = verify.New(r.client, r.Pods, r.IsLeader)
	err = builder.ControllerManagedBy(mgr).
		Named("verify").
		For(&corev1.Service{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.servicesOfPod)).
		WatchesRawSource(onStart()).
		WithOptions(options(concurrentVerifications)).
		Complete(r.verifier)
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		Named("activator").
		For(&corev1.Service{}).
		Owns(&discoveryv1.EndpointSlice{}, builder.MatchEveryOwner).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.servicesOfPod)).
		WatchesRawSource(source.Kind(activators, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ *corev1.Pod) []reconcile.Request { return r.services(ctx) }), replicaChanged)).
		WatchesRawSource(onStart()).
		WatchesRawSource(source.Channel(r.poller.Answered, forService)).
		WatchesRawSource(source.Channel(r.scaler.Changed, forService)).
		WatchesRawSource(source.Channel(r.verifier.Changed, forService)).
		WithOptions(options(8)).
		Complete(r)
}

// concurrentEvaluations is the number of functions whose load is measured at the same time.
const concurrentEvaluations = 128

// concurrentVerifications is the number of functions whose pods are polled at the same time to verify
// rollouts.
const concurrentVerifications = 32

// options returns the options of a controller.
func options(concurrent int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: concurrent,
		ReconciliationTimeout:   15 * time.Second,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](10*time.Millisecond, maxBackoff),
	}
}

// forService maps the name of a Service to a request for it.
var forService = handler.TypedEnqueueRequestsFromMapFunc(func(_ context.Context, service types.NamespacedName) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: service}}
})

// replicaChanged accepts those updates of the activator's pods that change the addresses to which
// requests are routed, and restarts, after which a replica has to listen again.
var replicaChanged = predicate.TypedFuncs[*corev1.Pod]{UpdateFunc: func(e event.TypedUpdateEvent[*corev1.Pod]) bool {
	before, now := e.ObjectOld, e.ObjectNew
	sameContainer := func(a, b corev1.ContainerStatus) bool { return a.ContainerID == b.ContainerID }
	return backend.ActivatorServes(before) != backend.ActivatorServes(now) || !slices.Equal(podEndpoints(before), podEndpoints(now)) ||
		!slices.EqualFunc(before.Status.ContainerStatuses, now.Status.ContainerStatuses, sameContainer)
}}

// index adds the cache indexes of this package.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &corev1.Service{}, byFunction, func(obj client.Object) []string {
			return []string{obj.GetLabels()[v1beta1.FunctionLabel]}
		}),
		indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, byService, func(obj client.Object) []string {
			return []string{obj.GetLabels()[discoveryv1.LabelServiceName]}
		}),
	)
}

// servicesOfPod maps a pod to the Services of its function.
func (r *Reconciler) servicesOfPod(ctx context.Context, pod client.Object) []reconcile.Request {
	return r.services(ctx, client.InNamespace(pod.GetNamespace()), client.MatchingFields{byFunction: pod.GetLabels()[v1beta1.FunctionLabel]})
}

// services returns a request for each Service of a function that matches the options. It includes
// functions that must not sleep: sleep may have been disabled while no replica was the leader, and
// then the leader still has to delete their EndpointSlices.
func (r *Reconciler) services(ctx context.Context, options ...client.ListOption) []reconcile.Request {
	var list corev1.ServiceList
	if err := r.client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache was stopped
	}
	var requests []reconcile.Request
	for i := range list.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
