package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A subject is a way to deploy a program.
type subject struct {
	// name is the name of its figures, after deploy. and other prefixes.
	name string

	// objects returns the objects that deploy the program under a name in round i. The first
	// one becomes ready.
	objects func(name string, i int) []client.Object

	// list is an empty list of the kind of the first object, and ready reports whether an
	// object is ready.
	list  client.ObjectList
	ready func(client.Object) bool

	// replicas changes the number of replicas.
	replicas func(object client.Object, n int32)

	// small reduces the requests so that many programs fit on a small node. It is nil if there
	// are none.
	small func(object client.Object)

	// second changes the program to one that responds with "second", see awaitService. It is
	// nil if only the first start is measured.
	second func(object client.Object, i int)

	// built reports whether the build service compiles it.
	built bool

	// inspect takes further figures of a ready object. Optional.
	inspect func(ctx context.Context, ready client.Object) error
}

// sample deploys a subject, changes it, and removes it.
func (b *bench) sample(ctx context.Context, s subject, i int) {
	deploy := "deploy." + s.name
	if b.failed[deploy] != nil {
		return
	}
	objects := s.objects(fmt.Sprintf("%s-%d", dashed(s.name), i), i)
	defer b.remove(ctx, objects)
	var trail *trail
	b.attempt("phase."+s.name, func() (err error) {
		trail, err = b.follow(s, objects[0])
		return err
	})
	var ready client.Object
	if !b.attempt(deploy, func() error {
		now, took, err := b.deploy(ctx, s, objects)
		ready = now
		return b.recorded(deploy, took, err)
	}) {
		return
	}
	b.attempt("phase."+s.name, func() error { return trail.end(ctx) })
	if s.inspect != nil {
		b.attempt("compile", func() error { return s.inspect(ctx, ready) })
	}
	if s.second != nil {
		b.change(ctx, s, ready, i)
	}
}

// deploy creates the objects of a subject, and returns the time until the first of them was
// ready.
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

// change deploys the second version, and measures when it responds and when it is ready.
func (b *bench) change(ctx context.Context, s subject, ready client.Object, i int) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()                                    // the receiver may have returned
	changed := ready.DeepCopyObject().(client.Object) //nolint:forcetypeassert // it is what it was
	s.second(changed, i)
	answer, update := "answer."+s.name, "update."+s.name
	started := time.Now()
	if !b.attempt(update, func() error { return b.client.Patch(ctx, changed, client.MergeFrom(ready)) }) {
		return
	}
	answered := make(chan error, 1)
	var after time.Duration
	go func() {
		err := b.awaitService(ctx, changed.GetName(), secondAnswer)
		after = time.Since(started)
		answered <- err
	}()
	b.attempt(update, func() error {
		_, err := await(ctx, b.client, changed, s.list, s.ready)
		return b.recorded(update, time.Since(started), err)
	})
	b.attempt(answer, func() error {
		err := <-answered
		return b.recorded(answer, after, err)
	})
}

// recorded adds a sample unless there was an error, which it returns.
func (b *bench) recorded(kind string, took time.Duration, err error) error {
	if err == nil {
		b.record(kind, took.Seconds())
	}
	return err
}

// remove deletes the objects of a sample, if they exist.
func (b *bench) remove(ctx context.Context, objects []client.Object) {
	for _, object := range objects {
		err := b.client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if client.IgnoreNotFound(err) != nil {
			b.session.failures = append(b.session.failures, fmt.Errorf("removing %s: %w", object.GetName(), err))
		}
	}
}
