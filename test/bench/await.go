package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long a sample may take before the benchmark gives up.
const patience = 5 * time.Minute

// await watches one object, whose last known version is object, until the
// condition holds. list is an empty list of its kind.
func await[T client.Object](ctx context.Context, c client.WithWatch, object T, list client.ObjectList, holds func(T) bool) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	events, err := c.Watch(ctx, list,
		client.InNamespace(object.GetNamespace()),
		client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("metadata.name", object.GetName())})
	if err != nil {
		return object, err
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		now, ok := event.Object.(T)
		if event.Type == watch.Error || !ok {
			return object, fmt.Errorf("watching %s: %v", object.GetName(), event.Object)
		}
		// A watch begins with what there is, which may be older than object.
		if now.GetGeneration() >= object.GetGeneration() && holds(now) {
			return now, nil
		}
	}
	return object, fmt.Errorf("%s was not ready within %s", object.GetName(), patience)
}
