package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The number of replicas in scale, and the number of subjects that crowd deploys at once. A
// node has room for 110 pods.
const (
	manyReplicas = 10
	manySubjects = 25
)

// scale measures the time from one ready replica to ten.
func (b *bench) scale(ctx context.Context, s subject, i int) {
	kind := fmt.Sprintf("scale%d.%s", manyReplicas, s.name)
	b.attempt(kind, func() error {
		began := time.Now()
		objects := s.objects(fmt.Sprintf("scaled-%s-%d", dashed(s.name), i), i)
		defer b.removeAll(ctx, objects)
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
		_, err = await(ctx, b.client, more, s.list, s.ready)
		took := time.Since(started)
		if err == nil && s.built {
			b.attempt("compiles."+s.name, func() error { return b.recordBuilds(ctx, s, began) })
		}
		return b.recorded(kind, took, err)
	})
}

// crowd measures the time until many different subjects that are deployed at once are ready.
func (b *bench) crowd(ctx context.Context, s subject, i int) {
	kind := fmt.Sprintf("crowd%d.%s", manySubjects, s.name)
	b.attempt(kind, func() error {
		all := make([][]client.Object, manySubjects)
		for n := range all {
			all[n] = s.objects(fmt.Sprintf("crowd-%s-%d-%d", dashed(s.name), i, n), i*manySubjects+n)
			if s.small != nil {
				s.small(all[n][0])
			}
		}
		defer b.removeAll(ctx, slices.Concat(all...))
		started := time.Now()
		err := b.deployAll(ctx, s, all)
		return b.recorded(kind, time.Since(started), err)
	})
}

// deployAll creates the objects of many subjects, and waits until the first object of each is
// ready.
func (b *bench) deployAll(ctx context.Context, s subject, all [][]client.Object) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	names := map[string]bool{} // of those that are not ready
	for _, objects := range all {
		names[objects[0].GetName()] = true
	}
	created := make(chan error, 1)
	go func() {
		err := b.createAll(ctx, all)
		if err != nil {
			cancel(err)
		}
		created <- err
	}()
	err := awaitAll(ctx, b.client, all[0][0], s.list, s.ready, names)
	return errors.Join(<-created, err)
}

// createAll creates the objects of each subject in order, and all subjects concurrently.
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

// awaitAll waits until all objects in missing are ready. object is an example of them, and list
// an empty list of their kind.
func awaitAll(ctx context.Context, c client.WithWatch, object client.Object, list client.ObjectList, ready func(client.Object) bool, missing map[string]bool) error {
	n := len(missing)
	late := errors.New("not all were ready in time")
	ctx, cancel := context.WithTimeoutCause(ctx, patience, late)
	defer cancel()
	err := watchUntil(ctx, c, object, list, func(seen client.Object) bool {
		if ready(seen) {
			delete(missing, seen.GetName())
		}
		return len(missing) == 0
	}, client.InNamespace(object.GetNamespace()))
	if errors.Is(err, late) {
		return fmt.Errorf("%d of %d were ready within %s", n-len(missing), n, patience)
	}
	return err
}

// removeAll is remove for many pods. It waits until they are gone, so that their termination
// does not affect the next sample.
func (b *bench) removeAll(ctx context.Context, objects []client.Object) {
	b.remove(ctx, objects)
	if err := b.awaitEmpty(ctx); err != nil {
		b.session.failures = append(b.session.failures, err)
	}
}

// awaitEmpty waits until the namespace has no pod.
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

// dashed converts a name to one that is valid in the name of an object.
func dashed(name string) string { return strings.ReplaceAll(name, "_", "-") }
