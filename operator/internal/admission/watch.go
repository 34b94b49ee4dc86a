package admission

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// newKeeper watches the two objects by their names, so that it needs no right on
// any other. Its cache is not the manager's, whose start would wait for it, and
// fail without the rights.
func newKeeper(mgr manager.Manager, o Options) (*keeper, error) {
	o.Life = cmp.Or(o.Life, year)
	k := &keeper{options: o, log: mgr.GetLogger().WithName("admission"), said: map[string]string{}}
	named := fields.OneTermEqualSelector("metadata.name", Name)
	own, err := cache.New(o.Config, cache.Options{
		Scheme: mgr.GetScheme(),
		Mapper: mgr.GetRESTMapper(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.Secret{}: {Field: named, Namespaces: map[string]cache.Config{o.Namespace: {}}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{}: {Field: named},
		},
		ReaderFailOnMissingInformer: true,
		DefaultWatchErrorHandler:    k.unwatched,
	})
	if err != nil {
		return nil, err
	}
	k.client, err = client.New(o.Config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), Cache: &client.CacheOptions{Reader: own}})
	if err != nil {
		return nil, err
	}
	work, err := controller.NewUnmanaged("webhook-certificate", controller.Options{
		Reconciler:         k,
		SkipNameValidation: new(true), // the manager's are the ones to be told apart
		CacheSyncTimeout:   forever,   // the rights may be given later
		Logger:             mgr.GetLogger(),
	})
	if err != nil {
		return nil, err
	}
	one := reconcile.Request{NamespacedName: types.NamespacedName{Name: Name}}
	always := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request { return []reconcile.Request{one} })
	err = errors.Join(
		work.Watch(source.Kind[client.Object](own, &corev1.Secret{}, always)),
		work.Watch(source.Kind[client.Object](own, &admissionregistrationv1.ValidatingWebhookConfiguration{}, always)),
		// There may be none of them.
		work.Watch(source.Func(func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(one)
			return nil
		})),
	)
	k.start = func(ctx context.Context) error {
		go func() { _ = own.Start(ctx) }() // ends with the context, and never before
		return work.Start(ctx)
	}
	return k, err
}

// unwatched is told why a watch has ended.
func (k *keeper) unwatched(ctx context.Context, r *toolscache.Reflector, err error) {
	if apierrors.IsForbidden(err) {
		k.complain(r.TypeDescription(), fmt.Errorf("watching: %w", err))
		return
	}
	toolscache.DefaultWatchErrorHandler(ctx, r, err)
}
