// Package activator scales idle functions to zero and receives their requests while they sleep.
//
// The activator has several replicas. Each function that may sleep has a port, and all replicas of
// the activator listen on it. The port is stored only in the EndpointSlices that this package
// writes, which route the traffic of the function's Service to the replicas.
//
// One replica is the leader. It assigns the ports, adds the replicas to the EndpointSlices or
// removes them, and scales idle functions to zero. It also scales functions by their requests in
// flight (package autoscale) and reports the results of verified rollouts (package verify). For
// these results, every replica counts requests.
//
//	activator.go    the Reconciler
//	scaledown.go    the steps of a scale-down
//	slices.go       reads and writes EndpointSlices
//	annotations.go  reports failures and the results of verified rollouts to the operator, in annotations of the EndpointSlices
//	peers.go        communication between the replicas
//	register.go     watches, indexes and cache options
//	leader.go       leader election
//
// Package routing makes the decisions and does not access the cluster. Packages proxy and wake
// serve the requests.
package activator

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/api/v1beta1"
	"goless.io/operator/internal/activator/autoscale"
	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/activator/proxy"
	"goless.io/operator/internal/activator/routing"
	"goless.io/operator/internal/activator/verify"
	"goless.io/operator/internal/workload"
)

const (
	// retryInterval is the requeue delay when a change is expected soon: an activator does not
	// listen yet, or the cache was stale when an object was written.
	retryInterval = time.Second

	// recheckInterval is the requeue delay for a function that cannot be scaled to zero now, such
	// as during a rollout.
	recheckInterval = 10 * time.Second
)

// Reconciler manages the EndpointSlices that route a sleeping function's traffic to the activators,
// the listeners of this replica, and the scale-down of idle functions.
type Reconciler struct {
	Name      string // identity of this replica in the leader election
	PodName   string // pod of this replica; empty outside a cluster
	Namespace string // namespace of the activator's pods and lease
	AdminPort int32  // admin port of all replicas
	Pods      backend.Lister
	Proxy     *proxy.Server
	// ScalingMetrics are the metrics of functions that scale by their requests in flight.
	ScalingMetrics *autoscale.Metrics
	// Settle is the time in which a change of endpoints reaches all nodes; see
	// [routing.Observation].
	Settle time.Duration

	client     client.Client // reads from the cache
	live       client.Reader // reads from the API server
	activators client.Reader // reads the pods of the activator from a separate cache
	election   *election
	ports      *routing.Ports
	poller     *backend.Poller
	scaler     *autoscale.Scaler
	verifier   *verify.Verifier

	// scaleDowns contains the routing.ScaleDown of each Service whose function is being scaled to
	// zero. A new leader starts with an empty map, which restarts scale-downs in progress.
	scaleDowns sync.Map

	// unroutedSince contains, for each Service whose function must not sleep, the time since which
	// its EndpointSlices list no activator.
	unroutedSince sync.Map

	// seenReady contains, for each Service, the time at which this replica first saw each ready
	// pod.
	seenReady sync.Map
}

// reset clears the state of the previous term: another replica may have been the leader since then.
func (r *Reconciler) reset() {
	r.scaleDowns.Clear()
	r.unroutedSince.Clear()
	r.seenReady.Clear()
}

// Reconcile opens or closes the listener of a function. On the leader it also updates the
// EndpointSlices and scales the function to zero when it is idle.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	slices, err := r.slicesOf(ctx, request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	var service corev1.Service
	if err := client.IgnoreNotFound(r.client.Get(ctx, request.NamespacedName, &service)); err != nil {
		return reconcile.Result{}, err
	}
	b, ok := backend.FromService(&service)
	if !ok {
		return reconcile.Result{}, r.cleanUp(ctx, request.NamespacedName, slices)
	}
	rt := &route{Backend: b, port: portOf(b, slices), slices: slices}
	listenErr := r.listen(rt)
	if !r.IsLeader() {
		return reconcile.Result{}, listenErr
	}
	var again time.Duration
	if b.MaySleep() {
		r.unroutedSince.Delete(b.Service)
		if errors.Is(listenErr, syscall.EADDRINUSE) {
			// Two leaders assigned the same port, because the second one did not know of the first.
			// Assign another.
			rt.port, listenErr = 0, nil
		}
		again, err = r.reconcileAsLeader(ctx, rt)
	} else {
		again, err = r.disableSleep(ctx, rt)
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		again, err = retryInterval, nil // the cache was stale
	}
	if err := errors.Join(listenErr, err); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: again}, nil
}

// cleanUp removes the listener and the state of a Service that does not exist or does not belong to
// a Function. The leader also deletes its EndpointSlices.
func (r *Reconciler) cleanUp(ctx context.Context, service types.NamespacedName, slices []discoveryv1.EndpointSlice) error {
	r.Proxy.Close(service)
	r.poller.Forget(service)
	if !r.IsLeader() {
		return nil
	}
	r.scaleDowns.Delete(service)
	r.unroutedSince.Delete(service)
	r.seenReady.Delete(service)
	return r.deleteSlices(ctx, slices)
}

// listen opens the listener on the port of a route, or closes it if the route has no port.
func (r *Reconciler) listen(rt *route) error {
	if rt.port == 0 {
		r.Proxy.Close(rt.Service)
		return nil
	}
	return r.Proxy.Listen(rt.Backend, rt.port)
}

// reconcileAsLeader updates the EndpointSlices of a function that may sleep, and scales it to zero
// when it is idle. It returns the requeue delay; 0 means to wait for an event.
func (r *Reconciler) reconcileAsLeader(ctx context.Context, rt *route) (time.Duration, error) {
	if rt.port == 0 {
		return r.assignPort(ctx, rt)
	}
	found, err := r.Pods.List(ctx, rt.Function)
	if err != nil {
		return 0, err
	}
	o := r.observe(rt, found)
	rt.annotations = r.annotations(rt, o)
	needed, again := o.NeedsActivators()
	var a peersStatus
	if needed {
		if a, err = r.queryPeers(ctx, rt); err != nil {
			return 0, err
		}
		if !a.allListen {
			again = sooner(again, retryInterval)
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

// assignPort writes EndpointSlices with a port that no function uses. The replicas learn the port
// from the slices. None listens on it yet.
func (r *Reconciler) assignPort(ctx context.Context, rt *route) (time.Duration, error) {
	var err error
	if rt.port, err = r.choosePort(ctx); err != nil {
		return 0, err
	}
	return retryInterval, r.writeSlices(ctx, rt, nil)
}

// disableSleep stops routing requests to the activators for a function that must no longer sleep.
// If the function is asleep or waking, the activators receive its requests until a pod is ready,
// unless it was stopped (its Deployment has 0 replicas). The EndpointSlices, which reserve the
// port, are deleted one Settle after they were emptied. A function that cannot be scaled by its
// requests in flight, or whose rollout has a report, has empty EndpointSlices with annotations.
func (r *Reconciler) disableSleep(ctx context.Context, rt *route) (time.Duration, error) {
	r.scaleDowns.Delete(rt.Service)
	r.poller.Forget(rt.Service)
	rt.annotations = map[string]string{v1beta1.CannotScaleAnnotation: r.scalingProblem(rt), v1beta1.VerifyReportAnnotation: r.verified(rt)}
	reports := rt.annotations[v1beta1.CannotScaleAnnotation] != "" || rt.annotations[v1beta1.VerifyReportAnnotation] != ""
	if rt.port == 0 && reports {
		return r.assignPort(ctx, rt)
	}
	if rt.port == 0 {
		r.unroutedSince.Delete(rt.Service)
		return 0, r.deleteSlices(ctx, rt.slices)
	}
	found, err := r.Pods.List(ctx, rt.Function)
	if err != nil {
		return 0, err
	}
	o := r.observe(rt, found)
	rt.annotations = r.annotations(rt, o)
	if o.Routed {
		return r.stopRouting(ctx, rt, o)
	}
	if reports {
		r.unroutedSince.Delete(rt.Service)
		return 0, r.writeSlices(ctx, rt, nil)
	}
	since, _ := r.unroutedSince.LoadOrStore(rt.Service, time.Now())
	if left := r.Settle - time.Since(since.(time.Time)); left > 0 { //nolint:forcetypeassert // nothing else is stored
		return left, nil
	}
	return 0, r.deleteSlices(ctx, rt.slices)
}

// stopRouting removes the activators from the EndpointSlices of a function that must no longer
// sleep, unless the function is asleep or waking.
func (r *Reconciler) stopRouting(ctx context.Context, rt *route, o routing.Observation) (time.Duration, error) {
	r.unroutedSince.Delete(rt.Service)
	if needed, again := o.NeedsActivators(); needed {
		d, err := backend.Deployment(ctx, r.live, rt.Backend)
		if err != nil {
			return 0, err
		}
		if d != nil && workload.Replicas(d) > 0 {
			a, err := r.queryPeers(ctx, rt)
			if err != nil {
				return 0, err
			}
			return sooner(again, recheckInterval), r.writeSlices(ctx, rt, a.endpoints)
		}
	}
	return retryInterval, r.writeSlices(ctx, rt, nil)
}

// observe returns the Observation of a function, from the cache and the state of this leader. It
// discards the state of a finished scale-down.
func (r *Reconciler) observe(rt *route, found []backend.Pod) routing.Observation {
	o := routing.Observation{Now: time.Now(), Settle: r.Settle}
	o.Ready = r.readySince(rt, found, o.Now)
	for i := range rt.slices {
		o.Routed = o.Routed || len(rt.slices[i].Endpoints) > 0
	}
	if begun, ok := r.scaleDowns.Load(rt.Service); ok {
		o.ScaleDown = begun.(routing.ScaleDown) //nolint:forcetypeassert // nothing else is stored
	}
	if !o.ScalingDown() {
		o.ScaleDown = routing.ScaleDown{}
		r.scaleDowns.Delete(rt.Service)
	}
	return o
}

// readySince returns, for each ready pod, the time at which this replica first saw it ready.
func (r *Reconciler) readySince(rt *route, found []backend.Pod, now time.Time) (all []time.Time) {
	// since changes if the pod was not ready in between.
	type key struct {
		pod   types.UID
		since int64
	}
	known, _ := r.seenReady.Load(rt.Service)
	before, _ := known.(map[key]time.Time)
	times := map[key]time.Time{}
	for _, p := range found {
		if !p.Ready {
			continue
		}
		k := key{p.UID, p.ReadySince.Unix()}
		since, ok := before[k]
		if !ok {
			since = now
		}
		times[k] = since
		all = append(all, since)
	}
	r.seenReady.Store(rt.Service, times)
	return all
}

// sooner returns the shorter of two delays. 0 means no delay is set.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
