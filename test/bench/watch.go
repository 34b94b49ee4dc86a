package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is the timeout of a sample.
const patience = 5 * time.Minute

// await watches one object, whose last known version is object, until the condition holds, and
// returns its current version. list is an empty list of its kind.
func await[T client.Object](ctx context.Context, c client.WithWatch, object T, list client.ObjectList, holds func(T) bool) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s was not ready within %s", object.GetName(), patience))
	defer cancel()
	now := object
	err := watchUntil(ctx, c, object, list, func(seen client.Object) bool {
		now = seen.(T) //nolint:forcetypeassert // client-go has checked it
		// The first version that is seen may be older than object.
		return now.GetGeneration() >= object.GetGeneration() && holds(now)
	}, client.InNamespace(object.GetNamespace()),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", object.GetName())})
	return now, err
}

// watchUntil calls done with each existing object, and with each object that changes, until
// done returns true. It returns the cause of ctx if that ends first. object is an example of
// the watched objects, and list an empty list of their kind.
//
// It uses an informer of client-go, because the server may end a watch at any time, and the
// informer then starts another one.
func watchUntil(ctx context.Context, c client.WithWatch, object client.Object, list client.ObjectList, done func(client.Object) bool, which ...client.ListOption) error {
	with := func(options metav1.ListOptions) []client.ListOption {
		return append([]client.ListOption{&client.ListOptions{Raw: &options}}, which...)
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			all := list.DeepCopyObject().(client.ObjectList) //nolint:forcetypeassert // it is what it was
			return all, c.List(ctx, all, with(options)...)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return c.Watch(ctx, list.DeepCopyObject().(client.ObjectList), with(options)...) //nolint:forcetypeassert // it is what it was
		},
	}
	_, err := watchtools.UntilWithSync(ctx, source, object, nil, func(event watch.Event) (bool, error) {
		seen, ok := event.Object.(client.Object)
		return ok && event.Type != watch.Deleted && done(seen), nil
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
