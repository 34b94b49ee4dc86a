package observe

import (
	"context"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/verification"
)

// Activator is the state of the activator for a Function that may sleep, scales by its requests in
// flight or verifies rollouts.
type Activator struct {
	// Ready reports whether a replica of the activator is ready.
	Ready bool

	// Routed reports whether an EndpointSlice of the Function's Service contains a replica.
	Routed bool

	// WakeFailed is the reason why the last wake-up failed; empty if it did not fail, or if a pod
	// was ready after it.
	WakeFailed string

	// StaysAwake is the reason why the activator cannot determine how long the function has been
	// idle; empty if it can.
	StaysAwake string

	// CannotScale is the reason why the activator cannot scale the function by its requests in flight;
	// empty if it can.
	CannotScale string

	// Verified contains the requests that were counted to verify a rollout; nil until they are
	// counted. They may be those of an earlier rollout.
	Verified *verification.Report
}

// read reads the EndpointSlices of the activator that belong to services. Any client can label a
// slice as the activator's.
func (a *Activator) read(all []discoveryv1.EndpointSlice, services []corev1.Service) {
	for i := range all {
		owned := slices.ContainsFunc(services, func(s corev1.Service) bool {
			return len(all[i].OwnerReferences) == 1 && all[i].OwnerReferences[0].UID == s.UID
		})
		if !owned {
			continue
		}
		a.Routed = a.Routed || len(all[i].Endpoints) > 0
		if why, ok := all[i].Annotations[v1beta1.WakeFailedAnnotation]; ok {
			a.WakeFailed = why
		}
		if why, ok := all[i].Annotations[v1beta1.StaysAwakeAnnotation]; ok {
			a.StaysAwake = why
		}
		if why, ok := all[i].Annotations[v1beta1.CannotScaleAnnotation]; ok {
			a.CannotScale = why
		}
		if report := verification.ParseReport(all[i].Annotations[v1beta1.VerifyReportAnnotation]); report != nil {
			a.Verified = report
		}
	}
}

// Activators reports whether a replica of the activator is ready.
type Activators struct {
	replicas  client.Reader
	functions client.Reader
	ready     atomic.Bool // when changed was called last
}

// WatchActivators makes a controller reconcile the Function of an EndpointSlice when the slice
// changes. When the first replica of the activator becomes ready, or the last one becomes unready,
// the controller reconciles all Functions that may sleep or scale by their requests in flight.
// namespace is the namespace of the replicas.
func WatchActivators(mgr manager.Manager, namespace string, b *builder.Builder) (*Activators, error) {
	replicas, err := backend.CacheActivators(mgr, namespace)
	if err != nil {
		return nil, err
	}
	a := &Activators{replicas: replicas, functions: mgr.GetClient()}
	b.WatchesRawSource(source.Kind(replicas, &corev1.Pod{}, handler.TypedEnqueueRequestsFromMapFunc(a.changed)))
	b.Watches(&discoveryv1.EndpointSlice{}, handler.EnqueueRequestsFromMapFunc(functionOfSlice), builder.WithPredicates(sliceChanged))
	return a, nil
}

// Ready reports whether a replica of the activator is ready.
func (a *Activators) Ready(ctx context.Context) (bool, error) {
	var list corev1.PodList
	if err := a.replicas.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return false, err
	}
	return slices.ContainsFunc(list.Items, func(pod corev1.Pod) bool { return backend.ActivatorServes(&pod) }), nil
}

// changed maps a replica to all Functions that may sleep or scale by their requests in flight if
// the first replica has become ready or the last one has become unready.
func (a *Activators) changed(ctx context.Context, _ *corev1.Pod) []reconcile.Request {
	ready, err := a.Ready(ctx)
	if err != nil || a.ready.Swap(ready) == ready {
		return nil
	}
	var functions v1beta1.FunctionList
	if err := a.functions.List(ctx, &functions, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil // the cache has ended
	}
	var requests []reconcile.Request
	for i := range functions.Items {
		if fn := &functions.Items[i]; fn.MaySleep() || fn.ScalesOnRequests() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(fn)})
		}
	}
	return requests
}

func functionOfSlice(_ context.Context, s client.Object) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: s.GetNamespace(), Name: s.GetLabels()[v1beta1.FunctionLabel]}}}
}

// sliceChanged accepts updates of a slice that change an [Activator]. The names of the replicas in
// a slice change with each rollout of the activator and are ignored.
var sliceChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*discoveryv1.EndpointSlice)
	now, ok2 := e.ObjectNew.(*discoveryv1.EndpointSlice)
	if !ok || !ok2 {
		return false
	}
	return (len(before.Endpoints) > 0) != (len(now.Endpoints) > 0) ||
		before.Annotations[v1beta1.WakeFailedAnnotation] != now.Annotations[v1beta1.WakeFailedAnnotation] ||
		before.Annotations[v1beta1.StaysAwakeAnnotation] != now.Annotations[v1beta1.StaysAwakeAnnotation] ||
		before.Annotations[v1beta1.CannotScaleAnnotation] != now.Annotations[v1beta1.CannotScaleAnnotation] ||
		before.Annotations[v1beta1.VerifyReportAnnotation] != now.Annotations[v1beta1.VerifyReportAnnotation]
}}
