package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How many replicas scale asks for, and how many of a kind crowd deploys at once.
// A node has room for 110 pods.
const (
	manyReplicas = 10
	manySubjects = 50
)

// scale measures how long it takes from one ready replica to ten.
func (b *bench) scale(ctx context.Context, s subject, i int) error {
	began := time.Now()
	objects := s.objects(fmt.Sprintf("scaled-%s-%d", dashed(s.name), i), i)
	ready, _, err := b.deploy(ctx, s, objects)
	if err != nil {
		return err
	}
	more := ready.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is what it was
	s.replicas(more, manyReplicas)
	started := time.Now()
	if err := b.client.Patch(ctx, more, client.MergeFrom(ready)); err != nil {
		return err
	}
	if _, err := await(ctx, b.client, more, s.list, s.ready); err != nil {
		return err
	}
	b.record(fmt.Sprintf("scale%d.%s", manyReplicas, s.name), time.Since(started).Seconds())
	if s.built {
		n, err := b.builds(ctx, began)
		if err != nil {
			return err
		}
		b.record("compiles."+s.name, float64(n))
	}
	return errors.Join(b.remove(ctx, objects), b.awaitEmpty(ctx))
}

// crowd measures how long it takes until many are ready that are deployed at once,
// none of them like another.
func (b *bench) crowd(ctx context.Context, s subject, i int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	prefix := "crowd-" + dashed(s.name)
	events, err := b.client.Watch(ctx, s.list, client.InNamespace(b.namespace))
	if err != nil {
		return err
	}
	defer events.Stop()

	all := make([][]client.Object, manySubjects)
	for n := range all {
		all[n] = s.objects(fmt.Sprintf("%s-%d-%d", prefix, i, n), i*manySubjects+n)
		if s.small != nil {
			s.small(all[n][0])
		}
	}
	started := time.Now()
	created := make(chan error, 1)
	go func() { created <- b.createAll(ctx, all) }()
	ready := awaitAll(events, prefix, s.ready, len(all))
	took := time.Since(started)
	if err := errors.Join(<-created, ready); err != nil {
		return err
	}
	b.record(fmt.Sprintf("crowd%d.%s", manySubjects, s.name), took.Seconds())
	for _, objects := range all {
		err = errors.Join(err, b.remove(ctx, objects))
	}
	return errors.Join(err, b.awaitEmpty(ctx))
}

// createAll creates what belongs together in its order, and the rest at once.
func (b *bench) createAll(ctx context.Context, all [][]client.Object) error {
	var group sync.WaitGroup
	failures := make([]error, len(all))
	for n, objects := range all {
		group.Go(func() {
			for _, object := range objects {
				failures[n] = errors.Join(failures[n], b.client.Create(ctx, object))
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// awaitAll waits until n objects are ready whose names begin with prefix.
func awaitAll(events watch.Interface, prefix string, ready func(client.Object) bool, n int) error {
	are := map[string]bool{}
	for event := range events.ResultChan() {
		object, ok := event.Object.(client.Object)
		if event.Type == watch.Error || !ok {
			return fmt.Errorf("watching what begins with %s: %v", prefix, event.Object)
		}
		if strings.HasPrefix(object.GetName(), prefix) && ready(object) {
			are[object.GetName()] = true
		}
		if len(are) == n {
			return nil
		}
	}
	return fmt.Errorf("%d of %d were ready in %s", len(are), n, patience)
}

// awaitEmpty waits until the namespace has no pod, so that the end of those of one
// sample is no part of the next.
func (b *bench) awaitEmpty(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		var pods corev1.PodList
		if err := b.client.List(ctx, &pods, client.InNamespace(b.namespace)); err != nil {
			return err
		}
		if len(pods.Items) == 0 {
			return nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return fmt.Errorf("%d pods were left after %s", len(pods.Items), patience)
		}
	}
}

// dashed is a name that may be part of the name of an object.
func dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }
