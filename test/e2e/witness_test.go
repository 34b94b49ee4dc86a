package e2e

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"goless.io/operator/api/v1beta1"
)

// A witness watches a namespace and records everything.
type witness struct {
	mu     sync.Mutex
	record []sighting
	now    map[types.UID]client.Object
	news   chan struct{} // closed at the next sighting
}

// A sighting is one version of an object, or its deletion.
type sighting struct {
	at     time.Time
	object client.Object
	gone   bool
}

// watched are the kinds that a witness watches.
var watched = []client.Object{
	&v1beta1.Function{},
	&appsv1.Deployment{},
	&appsv1.ReplicaSet{},
	&corev1.Pod{},
	&corev1.ConfigMap{},
	&corev1.Service{},
	&discoveryv1.EndpointSlice{},
}

// newWitness watches until ctx ends.
func newWitness(ctx context.Context, namespace string) (*witness, error) {
	w := &witness{now: map[types.UID]client.Object{}, news: make(chan struct{})}
	objects, err := cache.New(config, cache.Options{
		Scheme:            scheme,
		DefaultNamespaces: map[string]cache.Config{namespace: {}},
	})
	if err != nil {
		return nil, err
	}
	for _, kind := range watched {
		informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		if _, err := informer.AddEventHandler(w.handler()); err != nil {
			return nil, err
		}
	}
	go objects.Start(ctx) //nolint:errcheck // fails only if it is started twice
	if !objects.WaitForCacheSync(ctx) {
		return nil, ctx.Err()
	}
	return w, nil
}

func (w *witness) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.see(obj, false) },
		UpdateFunc: func(_, obj any) { w.see(obj, false) },
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			w.see(obj, true)
		},
	}
}

func (w *witness) see(obj any, gone bool) {
	object, ok := obj.(client.Object)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = append(w.record, sighting{at: time.Now(), object: object, gone: gone})
	if w.now[object.GetUID()] = object; gone {
		delete(w.now, object.GetUID())
	}
	close(w.news)
	w.news = make(chan struct{})
}

// next returns a channel that is closed at the next sighting.
func (w *witness) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.news
}

// all returns the whole record.
func (w *witness) all() []sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.record)
}

// current returns the existing objects of a kind, by name.
func current[T client.Object](w *witness) []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	var objects []T
	for _, object := range w.now {
		if o, ok := object.(T); ok {
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b T) int { return strings.Compare(a.GetName(), b.GetName()) })
	return objects
}

// versions returns all versions of all objects of a kind.
func versions[T client.Object](w *witness) []T {
	var objects []T
	for _, s := range w.all() {
		if o, ok := s.object.(T); ok && !s.gone {
			objects = append(objects, o)
		}
	}
	return objects
}

// first returns when the first version of an object that satisfies is was seen, or the zero
// time.
func first[T client.Object](w *witness, is func(T) bool) time.Time {
	for _, s := range w.all() {
		if o, ok := s.object.(T); ok && !s.gone && is(o) {
			return s.at
		}
	}
	return time.Time{}
}

// names returns the names of all objects of a kind that ever existed.
func names[T client.Object](w *witness) []string {
	var all []string
	for _, object := range versions[T](w) {
		all = append(all, object.GetName())
	}
	slices.Sort(all)
	return slices.Compact(all)
}
