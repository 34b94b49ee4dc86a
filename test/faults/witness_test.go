package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// witnessed are the kinds that the oracles use.
var witnessed = map[string]string{
	"Function": "goless.io/v1beta1", "Deployment": "apps/v1", "ReplicaSet": "apps/v1", "PodDisruptionBudget": "policy/v1",
	"NetworkPolicy": "networking.k8s.io/v1", "Service": "v1", "ConfigMap": "v1", record: "apps/v1",
}

// record is the kind of the records of versions, whose names contain a hash of the namespace.
const record = "ControllerRevision"

// version is an object at one time.
type version struct {
	*unstructured.Unstructured
	deleted bool // it is the last one, and the object is gone
	lost    bool // and the time is unknown
	seen    time.Time
}

// witness records every version of every object, in order.
type witness struct {
	mu       sync.Mutex
	versions map[string][]version // by kind, namespace and name, with slashes
	changed  chan struct{}        // closed by the next version
}

func newWitness(ctx context.Context, config *rest.Config) (*witness, error) {
	w := &witness{versions: map[string][]version{}, changed: make(chan struct{})}
	informers, err := cache.New(config, cache.Options{})
	if err != nil {
		return nil, err
	}
	for kind, apiVersion := range witnessed {
		object := &unstructured.Unstructured{}
		object.SetAPIVersion(apiVersion)
		object.SetKind(kind)
		informer, err := informers.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    func(obj any) { w.note(obj, false) },
			UpdateFunc: func(_, obj any) { w.note(obj, false) },
			DeleteFunc: func(obj any) { w.note(obj, true) },
		})
		if err != nil {
			return nil, err
		}
	}
	go informers.Start(ctx) //nolint:errcheck // what it cannot watch, no case can await
	if !informers.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("the API server cannot be watched")
	}
	return w, nil
}

func (w *witness) note(obj any, deleted bool) {
	unknown, lost := obj.(toolscache.DeletedFinalStateUnknown)
	if lost {
		obj = unknown.Obj
	}
	object := obj.(*unstructured.Unstructured)
	key := object.GetKind() + "/" + object.GetNamespace() + "/" + object.GetName()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.versions[key] = append(w.versions[key], version{object, deleted, lost, time.Now()})
	close(w.changed)
	w.changed = make(chan struct{})
}

// of returns all versions of an object.
func (w *witness) of(kind, namespace, name string) []version {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.versions[kind+"/"+namespace+"/"+name])
}

// ofKind returns all versions of all objects of a kind in a namespace, in order for each
// object.
func (w *witness) ofKind(kind, namespace string) (all []version) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, versions := range w.versions {
		if strings.HasPrefix(key, kind+"/"+namespace+"/") {
			all = append(all, versions...)
		}
	}
	return all
}

// live returns the current object, or nil.
func (w *witness) live(kind, namespace, name string) *unstructured.Unstructured {
	all := w.of(kind, namespace, name)
	if len(all) == 0 || all[len(all)-1].deleted {
		return nil
	}
	return all[len(all)-1].Unstructured
}

// all returns the current objects of a namespace, by kind and name, without records.
func (w *witness) all(namespace string) []*unstructured.Unstructured {
	w.mu.Lock()
	defer w.mu.Unlock()
	var live []*unstructured.Unstructured
	for key, versions := range w.versions {
		name := strings.Split(key, "/")
		if last := versions[len(versions)-1]; !last.deleted && name[0] != record && name[1] == namespace {
			live = append(live, last.Unstructured)
		}
	}
	slices.SortFunc(live, func(a, b *unstructured.Unstructured) int {
		return strings.Compare(a.GetKind()+"/"+a.GetName(), b.GetKind()+"/"+b.GetName())
	})
	return live
}

// forget removes the versions of a namespace.
func (w *witness) forget(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key := range w.versions {
		if strings.Split(key, "/")[1] == namespace {
			delete(w.versions, key)
		}
	}
}

// await waits until holds returns nil. It calls it after every event, and at intervals. After
// patience it returns the last result.
func (w *witness) await(patience time.Duration, holds func() error) error {
	deadline := time.After(patience)
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		err := holds()
		if err == nil {
			return nil
		}
		select {
		case <-changed:
		case <-time.After(200 * time.Millisecond): // for what is not in etcd
		case <-deadline:
			return fmt.Errorf("not within %s: %w", patience, err)
		}
	}
}
