// Package activator puts functions to sleep and takes their requests while they sleep.
//
// Every replica listens for every function that may sleep, on a port that the EndpointSlice of
// its Service tells. One replica leads: it chooses the ports, says in the slices whether nodes
// shall send requests here, and ends the pods of functions that nobody calls.
//
//	activator.go  what is done for each Service
//	slices.go     what the EndpointSlices say
//	scaledown.go  how a function falls asleep
//	peers.go      what the replicas tell each other
//	register.go   what is watched
//	leader.go     who leads
//
// What is decided is in package rule, and what requests meet in packages proxy and wake.
package activator

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/internal/activator/pods"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/activator/rule"
	"goless.io/operator/internal/activator/target"
)

// A Reconciler does for each Service what is to be done.
type Reconciler struct {
	Name      string // of this replica alone
	Namespace string // of the activator's pods and of its lease
	AdminPort int32  // of all replicas
	Pods      pods.Lister
	Proxy     *proxy.Server
	// Settle is that of [rule.Observation].
	Settle time.Duration

	client   client.Client // reads from the cache
	live     client.Reader // reads from the API server
	peers    client.Reader // reads the pods of the activator from a cache
	election *election
	ports    *rule.Ports

	// scaleDowns has a rule.ScaleDown, by Service, of each function that is falling asleep.
	scaleDowns sync.Map
}

// Reconcile listens for the function of a Service, and leads it if this replica leads.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	slices, err := r.slicesOf(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	var service corev1.Service
	if err := client.IgnoreNotFound(r.client.Get(ctx, request.NamespacedName, &service)); err != nil {
		return reconcile.Result{}, err
	}
	t, ok := target.Of(&service)
	port, failed := r.listen(request.NamespacedName, t, ok, slices)
	if !r.Leads() {
		return reconcile.Result{}, failed
	}
	var again time.Duration
	switch {
	case !ok:
		r.scaleDowns.Delete(request.NamespacedName)
		err = r.deleteAll(ctx, slices)
	case t.MaySleep():
		if errors.Is(failed, syscall.EADDRINUSE) { // two leaders, one after the other, chose one port for two functions
			port, failed = 0, nil
		}
		again, err = r.lead(ctx, t, port, slices)
	default:
		again, err = r.release(ctx, t, port, slices)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		again, err = retry, nil // what was seen is old
	}
	if err := errors.Join(failed, err); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// listen takes requests at the port of the slices, and returns it; 0 if there is none.
func (r *Reconciler) listen(service types.NamespacedName, t target.Target, ok bool, slices []discoveryv1.EndpointSlice) (int32, error) {
	var port int32
	for i := range slices {
		port = rule.PortOf(&slices[i])
	}
	if !ok || port == 0 {
		r.Proxy.Close(service)
		return port, nil
	}
	return port, r.Proxy.Listen(t, port)
}

// lead says in the slices who takes the requests, and lets the function fall asleep. It
// returns after how long to look again.
func (r *Reconciler) lead(ctx context.Context, t target.Target, port int32, slices []discoveryv1.EndpointSlice) (time.Duration, error) {
	w := &sliceWriter{r: r, target: t, port: port, slices: slices}
	if port == 0 {
		var err error
		if w.port, err = r.choose(ctx); err != nil {
			return 0, err
		}
		return retry, w.write(ctx, nil) // nobody listens there yet
	}
	found, err := r.Pods.Of(ctx, t.Function)
	if err != nil {
		return 0, err
	}
	s := r.observe(t.Service, found, slices)
	if s.ScaleDownOver() {
		s.ScaleDown = rule.ScaleDown{}
		r.scaleDowns.Delete(t.Service)
	}
	again := s.RecheckAfter()
	if s.NeedsActivators() {
		if err := w.routeToActivators(ctx); err != nil {
			return 0, err
		}
		if !w.all {
			again = sooner(again, retry)
		}
	} else if err := w.write(ctx, nil); err != nil {
		return 0, err
	}
	if len(s.Ready) == 0 {
		return again, nil
	}
	next, err := r.scaleDown(ctx, t, s, found, w)
	return sooner(again, next), err
}

// release ends what was done for a function that may not sleep any more. If it sleeps or wakes
// just now the activators take its requests until a pod does, unless somebody has stopped it.
func (r *Reconciler) release(ctx context.Context, t target.Target, port int32, slices []discoveryv1.EndpointSlice) (time.Duration, error) {
	r.scaleDowns.Delete(t.Service)
	found, err := r.Pods.Of(ctx, t.Function)
	if err != nil {
		return 0, err
	}
	if s := r.observe(t.Service, found, slices); s.Routed && s.NeedsActivators() {
		d, err := r.deployment(ctx, t)
		if err != nil {
			return 0, err
		}
		if d != nil && *d.Spec.Replicas > 0 {
			w := &sliceWriter{r: r, target: t, port: port, slices: slices}
			return sooner(s.RecheckAfter(), recheck), w.routeToActivators(ctx)
		}
	}
	return 0, r.deleteAll(ctx, slices)
}

// deployment returns the Deployment of a function, and nil if there is none.
func (r *Reconciler) deployment(ctx context.Context, t target.Target) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	err := r.live.Get(ctx, t.Function, &d)
	if owner := metav1.GetControllerOf(&d); err != nil || owner == nil || owner.UID != t.FunctionUID {
		return nil, client.IgnoreNotFound(err)
	}
	return &d, nil
}

// observe returns what is known of a function: by the cache, and by what was done before.
func (r *Reconciler) observe(service types.NamespacedName, found []pods.Pod, slices []discoveryv1.EndpointSlice) rule.Observation {
	s := rule.Observation{Now: time.Now(), Settle: r.Settle}
	if begun, ok := r.scaleDowns.Load(service); ok {
		s.ScaleDown = begun.(rule.ScaleDown) //nolint:forcetypeassert // nothing else is stored
	}
	for _, p := range found {
		if p.Ready {
			s.Ready = append(s.Ready, p.Since)
		}
	}
	for i := range slices {
		s.Routed = s.Routed || len(slices[i].Endpoints) > 0
	}
	return s
}

// sooner returns the shorter of two times, of which 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
