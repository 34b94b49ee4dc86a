package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A subject is one way to deploy a program.
type subject struct {
	// name is what its figures are called, after deploy. and so on.
	name string

	// objects deploy the program under a name; in the round i, where that makes
	// a difference. What becomes ready is the first of them.
	objects func(name string, i int) []client.Object

	// list is an empty list of that kind, and ready tells whether one is.
	list  client.ObjectList
	ready func(client.Object) bool

	// replicas changes how many there shall be.
	replicas func(object client.Object, n int32)

	// small makes the program ask for so little that many fit on a small node. It
	// is nil where nothing is asked for.
	small func(object client.Object)

	// second turns the program into one that answers "second", as awaitService
	// wants it. It is nil for a subject of which only the first start is measured.
	second func(object client.Object, i int)

	// built says that the build service compiles it.
	built bool

	// inspect takes further figures of what is ready, unless it is nil.
	inspect func(ctx context.Context, ready client.Object) error
}

// sample deploys a subject, changes it, and removes it.
func (b *bench) sample(ctx context.Context, s subject, i int) error {
	objects := s.objects(fmt.Sprintf("%s-%d", dashed(s.name), i), i)
	trail, err := b.follow(ctx, s, objects[0])
	if err != nil {
		return err
	}
	ready, took, err := b.deploy(ctx, s, objects)
	if err != nil {
		return err
	}
	b.record("deploy."+s.name, took.Seconds())
	if err := trail.end(ctx); err != nil {
		return err
	}
	if s.inspect != nil {
		if err := s.inspect(ctx, ready); err != nil {
			return err
		}
	}
	if s.second != nil {
		if err := b.change(ctx, s, ready, i); err != nil {
			return err
		}
	}
	return b.remove(ctx, objects)
}

// deploy creates the objects of a subject, and tells how long it took from then
// until the first of them was ready.
func (b *bench) deploy(ctx context.Context, s subject, objects []client.Object) (ready client.Object, took time.Duration, err error) {
	started := time.Now()
	for _, object := range objects {
		if err := b.client.Create(ctx, object); err != nil {
			return nil, 0, err
		}
	}
	ready, err = await(ctx, b.client, objects[0], s.list, s.ready)
	return ready, time.Since(started), err
}

// change makes the second version of what is ready, and measures both when that
// answers, and when it is ready.
func (b *bench) change(ctx context.Context, s subject, ready client.Object, i int) error {
	changed := ready.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is what it was
	s.second(changed, i)
	started := time.Now()
	if err := b.client.Patch(ctx, changed, client.MergeFrom(ready)); err != nil {
		return err
	}
	answered := make(chan error, 1)
	go func() {
		err := b.awaitService(ctx, changed.GetName(), secondAnswer)
		if err == nil {
			b.record("answer."+s.name, time.Since(started).Seconds())
		}
		answered <- err
	}()
	_, err := await(ctx, b.client, changed, s.list, s.ready)
	took := time.Since(started)
	if err := errors.Join(err, <-answered); err != nil {
		return err
	}
	b.record("update."+s.name, took.Seconds())
	return nil
}

func (b *bench) remove(ctx context.Context, objects []client.Object) error {
	var all error
	for _, object := range objects {
		all = errors.Join(all, b.client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	return all
}
