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

// Register adds the controller of FunctionClasses to the manager. It also adds watches to
// functionController, which then reconciles a Function when its class or the labels of its
// namespace change, and when a staged rollout admits the Function.
func (c *Classes) Register(mgr manager.Manager, functionController *builder.Builder) error {
	if c.disabled {
		return nil
	}
	decides := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}))
	functionController.Watches(&v1beta1.FunctionClass{}, handler.EnqueueRequestsFromMapFunc(c.functionsOfClass), decides)
	functionController.WatchesMetadata(namespaces(), handler.EnqueueRequestsFromMapFunc(c.functionsOfNamespace), builder.WithPredicates(labelsChanged))
	functionController.WatchesRawSource(source.Channel(c.admitted, &handler.EnqueueRequestForObject{}))
	return builder.ControllerManagedBy(mgr).
		Named("functionclass").
		For(&v1beta1.FunctionClass{}, decides).
		Watches(&v1beta1.FunctionClass{}, handler.EnqueueRequestsFromMapFunc(c.allClasses), decides).
		WatchesMetadata(namespaces(), handler.EnqueueRequestsFromMapFunc(c.allClasses), builder.WithPredicates(predicate.LabelChangedPredicate{})).
		Watches(&v1beta1.Function{}, c.enqueueClass(func(_ context.Context, obj client.Object) *v1beta1.Function { return obj.(*v1beta1.Function) }),
			builder.WithPredicates(changed(func(obj client.Object) any { return functionFacts(obj.(*v1beta1.Function)) }))).
		Watches(&appsv1.Deployment{}, c.enqueueClass(c.functionOfDeployment),
			builder.WithPredicates(changed(func(obj client.Object) any { return deploymentFacts(obj.(*appsv1.Deployment)) }))).
		Complete(reconcile.Func(c.reconcile))
}

// changed is a predicate for updates that change facts, which must be comparable.
func changed(facts func(client.Object) any) predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return facts(e.ObjectOld) != facts(e.ObjectNew) }}
}

// labelsChanged is a predicate for updates that change labels.
var labelsChanged = predicate.And[client.Object](predicate.LabelChangedPredicate{}, predicate.Funcs{
	CreateFunc: func(event.CreateEvent) bool { return false },
	DeleteFunc: func(event.DeleteEvent) bool { return false },
})

// allClasses maps an object to all classes, because the following change which functions other
// classes have: a new class, a class that becomes a default, and the labels of a namespace. A new
// namespace may have several default classes.
func (c *Classes) allClasses(ctx context.Context, _ client.Object) []reconcile.Request {
	var all v1beta1.FunctionClassList
	if err := c.cached.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache was stopped
	}
	var requests []reconcile.Request
	for _, class := range all.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&class)})
	}
	return requests
}

// functionsOfClass maps a class to the Functions that may have it.
func (c *Classes) functionsOfClass(ctx context.Context, class client.Object) []reconcile.Request {
	return c.functions(ctx, func(fn *v1beta1.Function) bool {
		return fn.Spec.ClassName == "" || fn.Spec.ClassName == class.GetName()
	})
}

// functionsOfNamespace maps a namespace to its Functions.
func (c *Classes) functionsOfNamespace(ctx context.Context, namespace client.Object) []reconcile.Request {
	return c.functions(ctx, func(*v1beta1.Function) bool { return true }, client.InNamespace(namespace.GetName()))
}

// functions returns a request for each listed Function for which wanted returns true.
func (c *Classes) functions(ctx context.Context, wanted func(*v1beta1.Function) bool, options ...client.ListOption) []reconcile.Request {
	var all v1beta1.FunctionList
	if err := c.cached.List(ctx, &all, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // the cache was stopped
	}
	var requests []reconcile.Request
	for _, fn := range all.Items {
		if wanted(&fn) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&fn)})
		}
	}
	return requests
}

// functionOfDeployment returns the Function of a Deployment, or nil.
func (c *Classes) functionOfDeployment(ctx context.Context, d client.Object) *v1beta1.Function {
	fn := &v1beta1.Function{}
	key := client.ObjectKey{Namespace: d.GetNamespace(), Name: d.GetLabels()[desired.FunctionLabel]}
	if key.Name == "" || c.cached.Get(ctx, key, fn) != nil {
		return nil
	}
	return fn
}

// enqueueClass enqueues the class of an object's Function after batchDelay, because the functions
// of a class often change at the same time.
func (c *Classes) enqueueClass(functionOf func(context.Context, client.Object) *v1beta1.Function) handler.EventHandler {
	add := func(ctx context.Context, obj client.Object, q queue) {
		fn := functionOf(ctx, obj)
		if fn == nil {
			return
		}
		if class, _, err := c.Of(ctx, fn); err == nil && class != nil {
			q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: class.Name}}, batchDelay)
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
