// Package verify counts the requests of functions whose rollouts are verified. While the Service of a
// function contains limits, it polls the old and the new pods, and reports when the new ones have
// served for long enough, or are worse. The operator decides. Only the leader of the activators does
// that.
package verify

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"goless.io/operator/internal/activator/backend"
	"goless.io/operator/internal/verification"
)

const (
	// interval is the time between two polls of a function.
	interval = 2 * time.Second

	// pollTimeout is the time in which the pods of a function must respond.
	pollTimeout = time.Second

	// maxPolled is the maximum number of new and of old pods that are polled.
	maxPolled = 10

	// maxPods is the maximum number of pods of a rollout whose requests are remembered.
	maxPods = 200
)

// A Verifier counts the requests of functions. It is a reconciler of their Services.
type Verifier struct {
	client   client.Client // reads from the cache
	pods     backend.Lister
	isLeader func() bool

	// Changed receives the Service of a function when there is a report.
	Changed chan event.TypedGenericEvent[types.NamespacedName]

	mu        sync.Mutex
	functions map[types.NamespacedName]*function // by Service
}

// function is a function whose rollout is being verified. Only one reconcile at a time uses it,
// except report, which the lock of the Verifier protects. A new leader starts with the totals of the
// new pods, which are all since they started, and compares them with what the old ones serve from
// then on.
type function struct {
	limits verification.Limits
	polled time.Time
	pods   map[types.UID]*counted
	newPod types.UID            // the first one that is ready
	report *verification.Report // about newPod; nil until there is one
}

// counted are the requests of a pod, which may no longer exist.
type counted struct {
	isNew       bool
	responded   bool
	first, last verification.Counts // totals since the pod started
	err         error               // of the last poll
}

// New returns a Verifier. c reads from the cache.
func New(c client.Client, pods backend.Lister, isLeader func() bool) *Verifier {
	return &Verifier{
		client: c, pods: pods, isLeader: isLeader,
		Changed:   make(chan event.TypedGenericEvent[types.NamespacedName], 64),
		functions: map[types.NamespacedName]*function{},
	}
}

// Report returns the report about a rollout with the given limits, or nil if there is none yet.
func (v *Verifier) Report(service types.NamespacedName, limits verification.Limits) *verification.Report {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f := v.functions[service]; f != nil && f.limits == limits {
		return f.report
	}
	return nil
}

// Reconcile polls the pods of a function whose rollout is being verified, until there is a report.
func (v *Verifier) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var service corev1.Service
	if err := client.IgnoreNotFound(v.client.Get(ctx, request.NamespacedName, &service)); err != nil {
		return reconcile.Result{}, err
	}
	b, ok := backend.FromService(&service)
	if !ok || b.Verify == nil || !v.isLeader() {
		v.mu.Lock()
		delete(v.functions, request.NamespacedName)
		v.mu.Unlock()
		return reconcile.Result{}, nil
	}
	found, err := v.pods.List(ctx, b.Function)
	if err != nil {
		return reconcile.Result{}, err
	}
	f := v.function(b, found)
	if f.report != nil {
		return reconcile.Result{}, nil
	}
	if left := interval - time.Since(f.polled); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	f.polled = time.Now()
	polling, cancel := context.WithTimeout(ctx, pollTimeout)
	f.poll(polling, found)
	cancel()
	if report := f.result(found, time.Now()); report != nil {
		v.mu.Lock()
		f.report = report
		v.mu.Unlock()
		select {
		case v.Changed <- event.TypedGenericEvent[types.NamespacedName]{Object: b.Service}:
		case <-ctx.Done():
			return reconcile.Result{}, ctx.Err()
		}
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: interval}, nil
}

// function returns the state of a function. It starts again when the limits or the new version have
// changed, and when the pod of a report is gone, because that is a report of an earlier rollout.
func (v *Verifier) function(b backend.Backend, found []backend.Pod) *function {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.functions[b.Service]
	if f == nil || f.limits != *b.Verify || f.report != nil && !slices.ContainsFunc(found, func(p backend.Pod) bool { return p.UID == f.report.Pod && !p.Terminating }) {
		f = &function{limits: *b.Verify, pods: map[types.UID]*counted{}}
		v.functions[b.Service] = f
	}
	return f
}

// poll reads the totals of the ready pods, at most maxPolled new and maxPolled old ones. The same
// pods are polled each time, because their UIDs are random.
func (f *function) poll(ctx context.Context, found []backend.Pod) {
	ready := slices.DeleteFunc(slices.Clone(found), func(p backend.Pod) bool { return !p.Ready })
	slices.SortFunc(ready, func(a, b backend.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	polled := map[bool]int{}
	var group sync.WaitGroup
	for _, pod := range ready {
		isNew := pod.Template == f.limits.Template
		if polled[isNew]++; polled[isNew] > maxPolled {
			continue
		}
		c := f.pods[pod.UID]
		if c == nil {
			if len(f.pods) >= maxPods {
				continue
			}
			c = &counted{isNew: isNew}
			f.pods[pod.UID] = c
		}
		group.Go(func() { c.poll(ctx, pod) })
	}
	group.Wait()
}

// poll reads the totals of a pod. Its code is not trusted.
func (c *counted) poll(ctx context.Context, pod backend.Pod) {
	var a backend.Activity
	if a, c.err = pod.Activity(ctx); c.err != nil {
		return
	}
	now := verification.Counts{Requests: max(a.Served, 0), Failed: min(max(a.Failed, 0), max(a.Served, 0))}
	if !c.responded || now.Requests < c.last.Requests || now.Failed < c.last.Failed { // the first poll, or the process was restarted
		c.first = now
	}
	c.last, c.responded = now, true
}

// result returns the report, or nil while there is none.
func (f *function) result(found []backend.Pod, now time.Time) *verification.Report {
	var since time.Time
	for _, pod := range found {
		if pod.Ready && pod.Template == f.limits.Template && (since.IsZero() || pod.ReadySince.Before(since)) {
			since, f.newPod = pod.ReadySince, pod.UID
		}
	}
	report := verification.Report{Template: f.limits.Template, Pod: f.newPod}
	var window, all verification.Counts // of the old pods
	responded := false
	for _, c := range f.pods {
		switch {
		case c.isNew:
			report.New = plus(report.New, c.last)
			responded = responded || c.responded
			if !c.responded && c.err != nil {
				report.Problem = c.err.Error()
			}
		default:
			window = plus(window, verification.Counts{Requests: c.last.Requests - c.first.Requests, Failed: c.last.Failed - c.first.Failed})
			all = plus(all, c.last)
		}
	}
	if responded {
		report.Problem = ""
	}
	report.Previous = window
	if window.Requests < f.limits.MinRequests {
		report.Previous = all
	}
	over := !since.IsZero() && !now.Before(since.Add(f.limits.For()))
	if over || f.limits.Worse(report.New, report.Previous) {
		return &report
	}
	return nil
}

func plus(a, b verification.Counts) verification.Counts {
	return verification.Counts{Requests: a.Requests + b.Requests, Failed: a.Failed + b.Failed}
}
