package class

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/desired"
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Register makes the manager roll out changed classes. The controller that functions belongs to
// reconciles a Function when its class changes, or the labels of its namespace, and when it is
// admitted.
func (c *Classes) Register(mgr manager.Manager, functions *builder.Builder) error {
	if c.none {
		return nil
	}
	decides := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	functions.Watches(&v1beta1.FunctionClass{}, handler.EnqueueRequestsFromMapFunc(c.users), decides)
	functions.WatchesMetadata(namespaces(), handler.EnqueueRequestsFromMapFunc(c.ofNamespace), builder.WithPredicates(relabelled))
	functions.WatchesRawSource(source.Channel(c.admitted, &handler.EnqueueRequestForObject{}))
	return builder.ControllerManagedBy(mgr).
		Named("functionclass").
		For(&v1beta1.FunctionClass{}, decides).
		Watches(&v1beta1.FunctionClass{}, handler.EnqueueRequestsFromMapFunc(c.all), decides).
		WatchesMetadata(namespaces(), handler.EnqueueRequestsFromMapFunc(c.all), builder.WithPredicates(relabelled)).
		Watches(&v1beta1.Function{}, c.soon(func(ctx context.Context, obj client.Object) *v1beta1.Function { return obj.(*v1beta1.Function) })).
		Watches(&appsv1.Deployment{}, c.soon(c.ofDeployment)).
		Complete(reconcile.Func(c.reconcile))
}

// relabelled lets pass when the labels of an object change.
var relabelled = predicate.And[client.Object](predicate.LabelChangedPredicate{}, predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
})

// all maps an object to all classes: a class that is new or the default, and the labels of a namespace,
// take functions away from other classes.
func (c *Classes) all(ctx context.Context, _ client.Object) []reconcile.Request {
	var all v1beta1.FunctionClassList
	if err := c.cached.List(ctx, &all, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil // the cache has ended
	}
	var requests []reconcile.Request
	for _, class := range all.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&class)})
	}
	return requests
}

// users maps a class to the Functions that may have it.
func (c *Classes) users(ctx context.Context, class client.Object) []reconcile.Request {
	return c.requests(ctx, func(fn *v1beta1.Function) bool {
		return fn.Spec.ClassName == "" || fn.Spec.ClassName == class.GetName()
	})
}

// ofNamespace maps a namespace to its Functions.
func (c *Classes) ofNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return c.requests(ctx, func(fn *v1beta1.Function) bool { return fn.Namespace == namespace.GetName() })
}

func (c *Classes) requests(ctx context.Context, wanted func(*v1beta1.Function) bool) []reconcile.Request {
	var all v1beta1.FunctionList
	if err := c.cached.List(ctx, &all, client.UnsafeDisableDeepCopy, client.DisableReadYourWritesConsistency); err != nil {
		return nil // the cache has ended
	}
	var requests []reconcile.Request
	for _, fn := range all.Items {
		if wanted(&fn) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&fn)})
		}
	}
	return requests
}

// ofDeployment returns the Function of a Deployment; nil if there is none.
func (c *Classes) ofDeployment(ctx context.Context, d client.Object) *v1beta1.Function {
	fn := &v1beta1.Function{}
	key := client.ObjectKey{Namespace: d.GetNamespace(), Name: d.GetLabels()[desired.FunctionLabel]}
	if key.Name == "" || c.cached.Get(ctx, key, fn, client.DisableReadYourWritesConsistency) != nil {
		return nil
	}
	return fn
}

// soon has the class of a Function reconciled, a short time after an object changed: many do at
// the same time.
func (c *Classes) soon(functionOf func(context.Context, client.Object) *v1beta1.Function) handler.EventHandler {
	add := func(ctx context.Context, obj client.Object, q queue) {
		fn := functionOf(ctx, obj)
		if fn == nil {
			return
		}
		if class, _, err := c.Of(ctx, fn); err == nil && class != nil {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: class.Name}}, settling)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			add(ctx, e.ObjectOld, q)
			add(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, e.Object, q) },
	}
}
