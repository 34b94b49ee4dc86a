package trigger

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/trigger/api/v1alpha1"
	"goless.io/trigger/internal/functionref"
)

const (
	// workers is the number of triggers of a kind that are reconciled concurrently.
	workers = 4

	// reconcileTimeout limits a reconciliation, so that a request that hangs does not block a
	// worker.
	reconcileTimeout = 15 * time.Second

	// maxBackoff limits the delay of a retry after an outage has ended.
	maxBackoff = 30 * time.Second

	// ByFunction is the name of the index of triggers by the names of their Functions.
	ByFunction = "functions"
)

// Watched contains what the triggers of a kind depend on in addition to their Functions.
type Watched struct {
	// Owned are types of objects that triggers own. Labelled are other types of objects, which have
	// the labels of their trigger.
	Owned, Labelled []client.Object

	// CompetingKinds are kinds of triggers. Competing maps a trigger of one of them to the triggers of
	// this kind that it may conflict with.
	CompetingKinds []client.Object
	Competing      handler.MapFunc

	// Referenced is a type of objects that triggers reference by name, or nil. OfReferenced maps a
	// created or deleted object of this type to the triggers that reference it.
	Referenced   client.Object
	OfReferenced handler.MapFunc

	// OfNamespace maps a namespace to the triggers that depend on its annotations. It is nil if
	// none do.
	OfNamespace handler.MapFunc
}

// Register adds r to the manager. It reconciles a trigger when the trigger, a Function that it
// calls or an object in w changes, or when an object that it references is created or deleted.
func (r *Reconciler[T, S]) Register(mgr manager.Manager, w Watched) error {
	kind := r.Kind.New().TriggerKind()
	err := mgr.GetFieldIndexer().IndexField(context.Background(), r.Kind.New(), ByFunction, func(obj client.Object) []string {
		return obj.(v1alpha1.Trigger).FunctionNames()
	})
	if err != nil {
		return fmt.Errorf("indexing triggers by their Functions: %w", err)
	}
	b := builder.ControllerManagedBy(mgr).
		Named(strings.ToLower(kind)).
		For(r.Kind.New(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1beta1.Function{}, handler.EnqueueRequestsFromMapFunc(r.callersOf), builder.WithPredicates(targetChanged)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   reconcileTimeout,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](10*time.Millisecond, maxBackoff),
		})
	for _, object := range w.Owned {
		b.Owns(object)
	}
	if w.OfNamespace != nil {
		b.Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(w.OfNamespace), builder.WithPredicates(predicate.AnnotationChangedPredicate{}))
	}
	if w.Referenced != nil {
		createdOrDeleted := predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
		b.Watches(w.Referenced, handler.EnqueueRequestsFromMapFunc(w.OfReferenced), builder.OnlyMetadata, builder.WithPredicates(createdOrDeleted))
	}
	for _, competitor := range w.CompetingKinds {
		b.Watches(competitor, handler.EnqueueRequestsFromMapFunc(w.Competing), builder.WithPredicates(predicate.GenerationChangedPredicate{}))
	}
	for _, object := range w.Labelled {
		b.Watches(object, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj client.Object) []reconcile.Request {
			if name := obj.GetLabels()[v1alpha1.TriggerLabel]; name != "" && obj.GetLabels()[v1alpha1.KindLabel] == kind {
				return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: name}}}
			}
			return nil
		}))
	}
	return b.Complete(r)
}

// targetChanged selects the changes to a Function that are relevant to its triggers.
var targetChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	before, now := e.ObjectOld.(*v1beta1.Function), e.ObjectNew.(*v1beta1.Function)
	return !equality.Semantic.DeepEqual(functionref.Of(before, before.Name), functionref.Of(now, now.Name)) ||
		(before.Spec.Scaling == nil) != (now.Spec.Scaling == nil)
}}

// callersOf maps a Function to the triggers that call it.
func (r *Reconciler[T, S]) callersOf(ctx context.Context, fn client.Object) []reconcile.Request {
	triggers, err := listOf(r.Client, r.Kind.New())
	if err == nil {
		err = r.Client.List(ctx, triggers, client.InNamespace(fn.GetNamespace()), client.MatchingFields{ByFunction: fn.GetName()})
	}
	if err != nil {
		return nil // the cache has stopped
	}
	var requests []reconcile.Request
	_ = meta.EachListItem(triggers, func(item runtime.Object) error {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
		return nil
	})
	return requests
}

// listOf returns an empty list for the kind of an object.
func listOf(c client.Client, of client.Object) (client.ObjectList, error) {
	gvk, err := apiutil.GVKForObject(of, c.Scheme())
	if err != nil {
		return nil, err
	}
	list, err := c.Scheme().New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, err
	}
	return list.(client.ObjectList), nil
}
