// Package activator puts functions to sleep and takes their requests while they sleep.
//
// Every replica listens for every function that may sleep. Each function has a port, the same on
// every replica. The EndpointSlices that this package writes send the requests for a Service to that port, and so the
// port is written down there and nowhere else. One replica leads: it chooses the ports, decides
// whether the slices name the activators, and scales functions to zero that nobody calls.
//
//	activator.go  what is done for each Service
//	scaledown.go  how a function falls asleep
//	slices.go     what the EndpointSlices say
//	notes.go      annotations of the EndpointSlices, for the operator
//	peers.go      what the replicas ask each other
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
	"goless.io/operator/internal/workload"
)

const (
	// retry is after how long to look again where something is about to change: activators that
	// do not listen yet, say, or an object that was read before somebody else has written it.
	retry = time.Second

	// recheck is after how long to look again at a function that cannot fall asleep, because
	// it is in a rollout, say.
	recheck = 10 * time.Second
)

// A Reconciler does for each Service of a function what is to be done.
type Reconciler struct {
	Name      string // of this replica alone
	PodName   string // of its pod; empty outside of a cluster
	Namespace string // of the activator's pods and of its lease
	AdminPort int32  // of all replicas
	Pods      pods.Lister
	Proxy     *proxy.Server
	// Settle is that of [rule.Observation].
	Settle time.Duration

	client     client.Client // reads from the cache
	live       client.Reader // reads from the API server
	activators client.Reader // reads the pods of the activator from a cache of their own
	election   *election
	ports      *rule.Ports
	polls      *pods.Poller

	// scaleDowns has a rule.ScaleDown for the Service of each function that is falling asleep. A
	// leader that has just begun knows of none: functions begin anew to fall asleep.
	scaleDowns sync.Map

	// emptied has, for the Service of each function that may no longer sleep, since when its slices name no
	// activator.
	emptied sync.Map

	// ready has, for each Service, since when this replica knows of each pod that is ready.
	ready sync.Map
}

// begin forgets what was known in the last term of this replica: another replica has led since then.
func (r *Reconciler) begin() {
	r.scaleDowns.Clear()
	r.emptied.Clear()
	r.ready.Clear()
}

// Reconcile listens for the function of a Service and, if this replica leads, does the work of the
// leader for it.
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
	if !ok {
		return reconcile.Result{}, r.forget(ctx, request.NamespacedName, slices)
	}
	rt := &route{Target: t, port: portOf(t, slices), slices: slices}
	listenErr := r.listen(rt)
	if !r.Leads() {
		return reconcile.Result{}, listenErr
	}
	var again time.Duration
	if t.MaySleep() {
		r.emptied.Delete(t.Service)
		if errors.Is(listenErr, syscall.EADDRINUSE) {
			// Another function has the port: two leaders chose it, and the second did not know of the first.
			rt.port, listenErr = 0, nil
		}
		again, err = r.lead(ctx, rt)
	} else {
		again, err = r.release(ctx, rt)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		again, err = retry, nil // the cache was behind
	}
	if err := errors.Join(listenErr, err); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// forget ends what was done for a Service that does not exist, or is not a function's.
func (r *Reconciler) forget(ctx context.Context, service types.NamespacedName, slices []discoveryv1.EndpointSlice) error {
	r.Proxy.Close(service)
	r.polls.Forget(service)
	if !r.Leads() {
		return nil
	}
	r.scaleDowns.Delete(service)
	r.emptied.Delete(service)
	r.ready.Delete(service)
	return r.deleteSlices(ctx, slices)
}

// listen takes requests at the port of a route.
func (r *Reconciler) listen(rt *route) error {
	if rt.port == 0 {
		r.Proxy.Close(rt.Service)
		return nil
	}
	return r.Proxy.Listen(rt.Target, rt.port)
}

// lead makes the slices say who takes the requests of a function that may sleep, and lets it fall
// asleep. It returns after how long to look again; 0 means when something changes.
func (r *Reconciler) lead(ctx context.Context, rt *route) (time.Duration, error) {
	if rt.port == 0 {
		var err error
		if rt.port, err = r.choosePort(ctx); err != nil {
			return 0, err
		}
		// The replicas learn the port from the slices. Nobody listens there yet.
		return retry, r.writeSlices(ctx, rt, nil)
	}
	found, err := r.Pods.Of(ctx, rt.Function)
	if err != nil {
		return 0, err
	}
	o := r.observe(rt, found)
	rt.notes = r.notes(rt, o)
	needed, again := o.NeedsActivators()
	var a answers
	if needed {
		if a, err = r.askActivators(ctx, rt); err != nil {
			return 0, err
		}
		if !a.allListen {
			again = sooner(again, retry)
		}
	}
	if err := r.writeSlices(ctx, rt, a.endpoints); err != nil {
		return 0, err
	}
	if len(o.Ready) == 0 {
		return again, nil
	}
	next, err := r.scaleDown(ctx, rt, o, found, a)
	return sooner(again, next), err
}

// release ends what was done for a function that may no longer sleep. If the function sleeps or
// wakes just now, the activators take its requests until a pod does, unless the function was stopped.
// The slices, and with them the port, go when all nodes know that they name no activator.
func (r *Reconciler) release(ctx context.Context, rt *route) (time.Duration, error) {
	r.scaleDowns.Delete(rt.Service)
	r.polls.Forget(rt.Service)
	if rt.port == 0 {
		r.emptied.Delete(rt.Service)
		return 0, r.deleteSlices(ctx, rt.slices)
	}
	found, err := r.Pods.Of(ctx, rt.Function)
	if err != nil {
		return 0, err
	}
	o := r.observe(rt, found)
	if !o.Routed {
		since, _ := r.emptied.LoadOrStore(rt.Service, time.Now())
		if left := r.Settle - time.Since(since.(time.Time)); left > 0 { //nolint:forcetypeassert // nothing else is stored
			return left, nil
		}
		return 0, r.deleteSlices(ctx, rt.slices)
	}
	r.emptied.Delete(rt.Service)
	if needed, again := o.NeedsActivators(); needed {
		d, err := r.deployment(ctx, rt.Target)
		if err != nil {
			return 0, err
		}
		if d != nil && workload.Replicas(d) > 0 {
			a, err := r.askActivators(ctx, rt)
			if err != nil {
				return 0, err
			}
			return sooner(again, recheck), r.writeSlices(ctx, rt, a.endpoints)
		}
	}
	return retry, r.writeSlices(ctx, rt, nil)
}

// deployment returns the Deployment of a function, and nil if there is none. It is read from the API
// server: the activator has no cache of Deployments, which would take more memory than it is worth.
func (r *Reconciler) deployment(ctx context.Context, t target.Target) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	err := r.live.Get(ctx, t.Function, &d)
	if owner := metav1.GetControllerOf(&d); err != nil || owner == nil || owner.UID != t.FunctionUID {
		return nil, client.IgnoreNotFound(err)
	}
	return &d, nil
}

// observe returns what is known of a function from the cache, and from what this leader has done for
// it. It forgets a scale-down that is over.
func (r *Reconciler) observe(rt *route, found []pods.Pod) rule.Observation {
	o := rule.Observation{Now: time.Now(), Settle: r.Settle}
	o.Ready = r.readySince(rt, found, o.Now)
	for i := range rt.slices {
		o.Routed = o.Routed || len(rt.slices[i].Endpoints) > 0
	}
	if begun, ok := r.scaleDowns.Load(rt.Service); ok {
		o.ScaleDown = begun.(rule.ScaleDown) //nolint:forcetypeassert // nothing else is stored
	}
	if !o.FallingAsleep() {
		o.ScaleDown = rule.ScaleDown{}
		r.scaleDowns.Delete(rt.Service)
	}
	return o
}

// readySince returns, for each pod that is ready, since when this replica knows that.
func (r *Reconciler) readySince(rt *route, found []pods.Pod, now time.Time) (all []time.Time) {
	// The second part of the key changes when the pod was not ready meanwhile.
	type key struct {
		pod   types.UID
		since int64
	}
	known, _ := r.ready.Load(rt.Service)
	before, _ := known.(map[key]time.Time)
	times := map[key]time.Time{}
	for _, p := range found {
		if !p.Ready {
			continue
		}
		k := key{p.UID, p.Since.Unix()}
		since, ok := before[k]
		if !ok {
			since = now
		}
		times[k] = since
		all = append(all, since)
	}
	r.ready.Store(rt.Service, times)
	return all
}

// sooner returns the shorter of two times, of which 0 is never.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
