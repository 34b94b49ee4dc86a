package activator

import (
	"context"
	"errors"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/rule"
	"goless.io/operator/internal/activator/target"
)

// Indexes of the cache. Services are found by their Function, slices by their Service and by
// their port.
const (
	byFunction = "metadata.labels.function"
	byService  = "metadata.labels.service"
	byPort     = "ports.port"
)

func portKey(port int32) string { return strconv.Itoa(int(port)) }

// CacheOptions say what the cache holds: the Services and the pods of functions, and our
// slices. namespaces is nil for all.
func CacheOptions(namespaces map[string]cache.Config) (cache.Options, error) {
	ofFunctions, err := labels.NewRequirement(v1beta1.FunctionLabel, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	function := labels.NewSelector().Add(*ofFunctions)
	return cache.Options{
		DefaultNamespaces: namespaces,
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Pod{}:     {Label: function, Transform: pods.Small},
			&corev1.Service{}: {Label: function, Transform: cache.TransformStripManagedFields()},
			&discoveryv1.EndpointSlice{}: {
				Label:     labels.SelectorFromSet(labels.Set{discoveryv1.LabelManagedBy: rule.Manager}),
				Transform: cache.TransformStripManagedFields(),
			},
		},
		ReaderFailOnMissingInformer: true,
	}, nil
}

// maxBackoff bounds how late the end of an outage is noticed. The default is 1000 s.
const maxBackoff = 30 * time.Second

// Register makes the manager run r for each Service that changes, that has a slice that does,
// or whose function has pods that do; and for all Services when the pods of the activator
// change, which the second cache holds, and when something comes from all.
func (r *Reconciler) Register(ctx context.Context, mgr manager.Manager, peers cache.Cache, all <-chan event.TypedGenericEvent[struct{}]) error {
	err := errors.Join(pods.Index(ctx, mgr.GetFieldIndexer()), index(ctx, mgr.GetFieldIndexer()))
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).
		Named("activator").
		For(&corev1.Service{}).
		Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(serviceOf)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.servicesOf)).
		WatchesRawSource(source.Kind(peers, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ *corev1.Pod) []reconcile.Request { return r.services(ctx) }))).
		WatchesRawSource(source.Channel(all, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, _ struct{}) []reconcile.Request { return r.everything(ctx) }))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 8,
			ReconciliationTimeout:   15 * time.Second,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](10*time.Millisecond, maxBackoff),
		}).
		Complete(r)
}

func index(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &corev1.Service{}, byFunction, func(obj client.Object) []string {
			return []string{obj.GetLabels()[v1beta1.FunctionLabel]}
		}),
		indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, byService, func(obj client.Object) []string {
			return []string{obj.GetLabels()[discoveryv1.LabelServiceName]}
		}),
		indexer.IndexField(ctx, &discoveryv1.EndpointSlice{}, byPort, func(obj client.Object) []string {
			return []string{portKey(rule.PortOf(obj.(*discoveryv1.EndpointSlice)))} //nolint:forcetypeassert // the index is of slices
		}),
	)
}

// serviceOf maps a slice to its Service.
func serviceOf(_ context.Context, slice client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: slice.GetNamespace(), Name: slice.GetLabels()[discoveryv1.LabelServiceName]}}}
}

// servicesOf maps a pod to the Services of its function.
func (r *Reconciler) servicesOf(ctx context.Context, pod client.Object) []reconcile.Request {
	return r.services(ctx, client.InNamespace(pod.GetNamespace()), client.MatchingFields{byFunction: pod.GetLabels()[v1beta1.FunctionLabel]})
}

// everything returns all Services that there may be something to do for: those of functions that
// may sleep, and those that have slices of ours. A function may have lost the right to sleep while
// nobody led.
func (r *Reconciler) everything(ctx context.Context) []reconcile.Request {
	var list discoveryv1.EndpointSliceList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has ended
	}
	requests := r.services(ctx)
	for i := range list.Items {
		requests = append(requests, serviceOf(ctx, &list.Items[i])...)
	}
	return requests
}

// services are those of functions that may sleep.
func (r *Reconciler) services(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	var list corev1.ServiceList
	if err := r.Client.List(ctx, &list, append(which, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache has ended
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if _, ok := target.Of(&list.Items[i]); ok {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
