// Package autoscale sets the number of replicas of awake functions with spec.scaling.requests. It
// polls the pods for their requests in flight, and does not need a metrics server. Only the leader
// of the activators runs it. Independently of that, each activator adds replicas for requests that
// wait (package wake).
//
//	autoscale.go  the Scaler, which evaluates each function every 2 or 4 seconds, and less often after failures to scale
//	load.go       polls the pods of a function for their load
//	decide.go     decides the number of replicas, without access to the cluster
//	history.go    the recent recommendations and changes, which limit a decision
//	metrics.go    metrics
package autoscale

import (
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/workload"
)

const (
	// interval is the time between two evaluations of a function.
	interval = 2 * time.Second

	// idleInterval is the interval of a function that has had no requests for the averaged time.
	// Most functions are idle most of the time.
	idleInterval = 2 * interval

	// maxInterval is the maximum of the interval, which doubles with each consecutive failure to
	// scale.
	maxInterval = time.Minute

	// pollTimeout is the time in which the pods of a function must respond.
	pollTimeout = time.Second

	// toleratedFailures is the number of consecutive failures that are not reported: of polls,
	// because the pods may be busy, or of attempts to scale.
	toleratedFailures = 2

	// rereadAfter is how long a cached number of replicas is used if it differs from the number of
	// pods. They may differ for a long time, because of a quota or a rollout.
	rereadAfter = 30 * time.Second

	// trustedFor is how long it is used otherwise.
	trustedFor = 5 * time.Minute
)

// A Scaler scales functions by their requests in flight. It is a reconciler of their Services.
type Scaler struct {
	client   client.Client
	live     client.Reader
	pods     backend.Lister
	metrics  *Metrics
	isLeader func() bool

	// Changed receives the Service of a function when the result of Problem has changed.
	Changed chan event.TypedGenericEvent[types.NamespacedName]

	mu        sync.Mutex
	functions map[types.NamespacedName]*function // by Service
}

// function is what the Scaler knows about a function. It starts empty after a change of the leader.
// Only one reconcile at a time uses it, except determined and problem, which the lock of the Scaler
// protects.
type function struct {
	name        types.NamespacedName
	evaluated   time.Time     // time of the last evaluation
	pause       time.Duration // from then until the next one
	idle        bool          // the last known load was 0
	histories   histories
	history     History
	replicas    int32     // of the Deployment, as last read or written; 0 if unknown or none
	read        time.Time // when the replicas were read or written
	failedPolls int       // consecutive; too few pods responded
	failures    int       // consecutive failures to scale
	determined  bool      // whether problem is known
	problem     string    // why the function cannot be scaled; empty if it can
}

// New returns a Scaler. c reads from the cache, and live from the API server.
func New(c client.Client, live client.Reader, pods backend.Lister, metrics *Metrics, isLeader func() bool) *Scaler {
	return &Scaler{
		client: c, live: live, pods: pods, metrics: metrics, isLeader: isLeader,
		Changed:   make(chan event.TypedGenericEvent[types.NamespacedName], 64),
		functions: map[types.NamespacedName]*function{},
	}
}

// Problem returns why a function cannot be scaled; empty if it can. known is false until a new leader
// has determined it, and for functions without pods.
func (s *Scaler) Problem(service types.NamespacedName) (problem string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.functions[service]; f != nil {
		return f.problem, f.determined
	}
	return "", false
}

// Reconcile evaluates a function if it was not evaluated during the last interval. A function without
// pods is evaluated again when it has one.
func (s *Scaler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var service corev1.Service
	if err := client.IgnoreNotFound(s.client.Get(ctx, request.NamespacedName, &service)); err != nil {
		return reconcile.Result{}, err
	}
	b, ok := backend.FromService(&service)
	if !ok || b.Scaling == nil || !s.isLeader() {
		s.forget(ctx, request.NamespacedName)
		return reconcile.Result{}, nil
	}
	found, err := s.pods.List(ctx, b.Function)
	if err != nil {
		return reconcile.Result{}, err
	}
	found = slices.DeleteFunc(found, func(p backend.Pod) bool { return p.Terminating })
	if len(found) == 0 { // asleep, stopped or starting
		s.forget(ctx, request.NamespacedName)
		return reconcile.Result{}, nil
	}
	f := s.function(b)
	if left := f.pause - time.Since(f.evaluated); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	f.evaluated = time.Now()
	decided, err := s.evaluate(ctx, b, f, found)
	pause := interval
	switch {
	case apierrors.IsConflict(err): // the Deployment has changed
		f.read = time.Time{}
	case err != nil: // not returned: the rate limiter would choose another delay
		f.failures++
		ctrl.LoggerFrom(ctx).Error(err, "cannot scale the function", "function", b.Function.String())
		if f.failures > toleratedFailures {
			s.setProblem(ctx, b.Service, f, err.Error())
		}
		pause = min(interval<<min(f.failures, 10), maxInterval)
	case decided:
		f.failures = 0
		if f.idle {
			pause = idleInterval
		}
	}
	// Slow pods must not occupy a worker most of the time.
	f.pause = max(pause, 4*time.Since(f.evaluated))
	return reconcile.Result{RequeueAfter: f.pause}, nil
}

func (s *Scaler) function(b backend.Backend) *function {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.functions[b.Service]
	if f == nil {
		f = &function{name: b.Function, histories: histories{}}
		s.functions[b.Service] = f
	}
	return f
}

// forget removes what is known about a function.
func (s *Scaler) forget(ctx context.Context, service types.NamespacedName) {
	s.mu.Lock()
	f := s.functions[service]
	delete(s.functions, service)
	s.mu.Unlock()
	if f == nil {
		return
	}
	s.metrics.forget(f.name)
	if f.problem != "" {
		s.notify(ctx, service)
	}
}

// setProblem sets the result of Problem.
func (s *Scaler) setProblem(ctx context.Context, service types.NamespacedName, f *function, problem string) {
	s.mu.Lock()
	changed := f.problem != problem || !f.determined
	f.problem, f.determined = problem, true
	s.mu.Unlock()
	if changed {
		s.notify(ctx, service)
	}
}

func (s *Scaler) notify(ctx context.Context, service types.NamespacedName) {
	changed := event.TypedGenericEvent[types.NamespacedName]{Object: service}
	select {
	case s.Changed <- changed: // also if ctx has ended
		return
	default:
	}
	select {
	case s.Changed <- changed:
	case <-ctx.Done():
	}
}

// evaluate polls the pods of a function, and scales its Deployment if that is required. It returns
// false if the load is unknown. That is also so for the first poll after a long pause.
func (s *Scaler) evaluate(ctx context.Context, b backend.Backend, f *function, found []backend.Pod) (decided bool, err error) {
	ready := slices.DeleteFunc(slices.Clone(found), func(p backend.Pod) bool { return !p.Ready })
	if len(ready) == 0 {
		s.metrics.forget(f.name)
		return false, nil // no pod receives requests
	}
	polling, cancel := context.WithTimeout(ctx, pollTimeout)
	load, cause := f.histories.poll(polling, ready)
	cancel()
	if load.Polled == 0 {
		return false, nil // the averages are known from the second poll on
	}
	if load.Unknown() {
		if load.Fresh {
			f.failedPolls++
		}
		s.metrics.unknown(f.name)
		if f.failedPolls > toleratedFailures {
			s.setProblem(ctx, b.Service, f, "the activator cannot read the requests of most pods: "+cause.Error())
		}
		return false, nil
	}
	f.failedPolls = 0
	f.idle = load.Requests == 0 && load.Unresponsive == 0
	if err := s.scale(ctx, b, f, load, len(found)); err != nil {
		return false, err
	}
	s.setProblem(ctx, b.Service, f, "")
	return true, nil
}

// scale decides about the number of replicas, and sets it. It reads the current number from the API
// server only before a change, and every 30 seconds while the number of pods differs.
func (s *Scaler) scale(ctx context.Context, b backend.Backend, f *function, load Load, pods int) error {
	if recent := time.Since(f.read) < rereadAfter; recent && f.replicas == 0 {
		return nil
	} else if f.replicas > 0 && (recent || pods == int(f.replicas) && time.Since(f.read) < trustedFor) {
		if d := f.decide(b, load); d.Replicas == f.replicas {
			s.metrics.record(b, load, d, f.replicas)
			return nil
		}
	}
	d, err := backend.Deployment(ctx, s.live, b)
	if err != nil {
		return err
	}
	replicas, now := int32(0), time.Now() // the Deployment falls asleep, was stopped, or is not the function's
	if d != nil {
		replicas = workload.Replicas(d)
	}
	if replicas > f.replicas { // another client has changed it, such as an activator for waiting requests
		f.history.Recommend(now, replicas)
	}
	f.replicas, f.read = replicas, now
	if replicas == 0 {
		return nil
	}
	decision := f.decide(b, load)
	s.metrics.record(b, load, decision, replicas)
	if decision.Replicas != replicas {
		if err := backend.Scale(ctx, s.client, d, decision.Replicas); err != nil {
			return err
		}
		ctrl.LoggerFrom(ctx).Info("scaled the function", "function", b.Function.String(), "from", replicas, "to", decision.Replicas, "requests", load.total(0))
		f.history.Add(now, max(decision.Replicas-replicas, 0))
		f.replicas = decision.Replicas
	}
	return nil
}

// decide decides the number of replicas, and records the recommendation. Without recent
// recommendations, the first one is the current number: earlier ones are unknown to a new leader.
func (f *function) decide(b backend.Backend, load Load) Decision {
	now := time.Now()
	if f.history.Highest(now) == 0 {
		f.history.Recommend(now, f.replicas)
	}
	d := Decide(Observation{
		Scaling: *b.Scaling, Current: f.replicas, Load: load, Highest: f.history.Highest(now), Limit: f.history.Limit(now, f.replicas),
	})
	f.history.Recommend(now, d.Recommended)
	return d
}
