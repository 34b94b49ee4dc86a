package wake

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"

	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/workload"
)

const (
	// raiseInterval is the delay between two attempts to add replicas for requests that wait.
	raiseInterval = 200 * time.Millisecond

	// raiseTimeout is the time that an attempt may take.
	raiseTimeout = 5 * time.Second
)

// A raiser adds replicas to a function that scales by its requests in flight, while requests wait
// for its pods.
type raiser struct {
	waker   *Waker
	service backend.Backend // as of the first request
	last    time.Time       // time of the last attempt
	running atomic.Bool     // an attempt is in progress
	reached atomic.Int32    // replicas that were set or rejected
}

// raise adds replicas if the requests of this activator require more than the function has pods. It
// does not block. A failure is only logged, because the existing pods can serve the requests.
func (r *raiser) raise(requests, pods int) {
	if time.Since(r.last) < raiseInterval || r.running.Load() {
		return
	}
	r.last = time.Now()
	b, ok := r.waker.current(r.service)
	required := r.waker.replicasFor(b, requests)
	if !ok || b.Scaling == nil || int(required) <= max(pods, int(r.reached.Load()), 1) {
		return
	}
	r.running.Store(true)
	go func() {
		defer r.running.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), raiseTimeout)
		defer cancel()
		if err := r.scale(ctx, b, required); err != nil {
			if !apierrors.IsConflict(err) {
				r.reached.Store(required) // only a higher number is tried again
			}
			ctrl.Log.V(1).Info("cannot add replicas for waiting requests", "function", b.Function.String(), "reason", err.Error())
		}
	}()
}

// scale sets the number of replicas unless the Deployment has none, or has enough.
func (r *raiser) scale(ctx context.Context, b backend.Backend, replicas int32) error {
	d, err := backend.Deployment(ctx, r.waker.Live, b)
	if err != nil || d == nil || workload.Replicas(d) == 0 {
		return err
	}
	if workload.Replicas(d) < replicas {
		if err := backend.Scale(ctx, r.waker.Client, d, replicas); err != nil {
			return err
		}
	}
	r.reached.Store(replicas)
	return nil
}

// current returns a Backend as the Service in the cache describes it now, or false if the Service
// does not belong to the function any more.
func (w *Waker) current(b backend.Backend) (backend.Backend, bool) {
	var service corev1.Service
	if err := w.Client.Get(context.Background(), b.Service, &service); err != nil {
		return backend.Backend{}, false
	}
	now, ok := backend.FromService(&service)
	return now, ok && now.Function == b.Function
}

// replicasFor returns the number of replicas that the requests of this activator require. It
// assumes that each other activator has one request less, so that a single request requires one
// replica. The result is 1 if the function does not scale by its requests in flight.
func (w *Waker) replicasFor(b backend.Backend, requests int) int32 {
	if b.Scaling == nil {
		return 1
	}
	return b.Scaling.Replicas(float64(max(requests-1, 0)*max(w.Activators(), 1) + 1))
}
