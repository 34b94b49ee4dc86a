// Package verify counts the requests of old and new pods while a rollout is verified, for each
// Service with the annotation goless.io/verify-limits. It reports the counts when the time is over,
// or when the new version fails too many requests. Each replica counts, so that a new leader has
// the counts; only the leader reports. The operator evaluates the report.
package verify

import (
	"cmp"
	"context"
	"errors"
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

	// justStarted is the maximum uptime of a new pod at its first poll for which all of its requests
	// count. For an older process, counting starts with the first poll.
	justStarted = 10 * time.Second

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

	mu       sync.Mutex
	rollouts map[types.NamespacedName]*rollout // by Service
}

// rollout is a rollout that is being verified. Only one reconcile at a time uses it, except report,
// which Verifier.mu guards.
type rollout struct {
	limits verification.Limits
	polled time.Time
	pods   map[types.UID]*podCounts
	newPod types.UID            // the first one that is ready
	report *verification.Report // about newPod; nil until there is one
}

// podCounts are the requests of a pod, which may no longer exist.
type podCounts struct {
	isNew       bool
	responded   bool
	first, last verification.Counts // totals since the process started
	inFlight    int
	err         error // of the last poll
}

// New returns a Verifier. c reads from the cache.
func New(c client.Client, pods backend.Lister, isLeader func() bool) *Verifier {
	return &Verifier{
		client: c, pods: pods, isLeader: isLeader,
		Changed:  make(chan event.TypedGenericEvent[types.NamespacedName], 64),
		rollouts: map[types.NamespacedName]*rollout{},
	}
}

// Report returns the report about a rollout with the given limits, or nil if there is none yet.
func (v *Verifier) Report(service types.NamespacedName, limits verification.Limits) *verification.Report {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f := v.rollouts[service]; f != nil && f.limits == limits {
		return f.report
	}
	return nil
}

// Reconcile polls the pods of a function whose rollout is being verified, until this replica has reported.
func (v *Verifier) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var service corev1.Service
	if err := client.IgnoreNotFound(v.client.Get(ctx, request.NamespacedName, &service)); err != nil {
		return reconcile.Result{}, err
	}
	b, ok := backend.FromService(&service)
	if !ok || b.Verify == nil {
		v.mu.Lock()
		delete(v.rollouts, request.NamespacedName)
		v.mu.Unlock()
		return reconcile.Result{}, nil
	}
	found, err := v.pods.List(ctx, b.Function)
	if err != nil {
		return reconcile.Result{}, err
	}
	f := v.rollout(b, found)
	isNew := func(p backend.Pod) bool { return p.Template == f.limits.Template && !p.Terminating }
	if f.report != nil || !slices.ContainsFunc(found, isNew) { // an event of a pod triggers the next reconcile
		return reconcile.Result{}, nil
	}
	if left := interval - time.Since(f.polled); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	f.polled = time.Now()
	polling, cancel := context.WithTimeout(ctx, pollTimeout)
	f.poll(polling, found)
	cancel()
	if report := f.result(found, time.Now()); report != nil && v.isLeader() {
		v.setReport(f, report)
		select {
		case v.Changed <- event.TypedGenericEvent[types.NamespacedName]{Object: b.Service}:
		case <-ctx.Done():
			v.setReport(f, nil)
			return reconcile.Result{}, ctx.Err()
		}
		return reconcile.Result{}, nil
	}
	// Slow pods must not occupy a worker most of the time.
	return reconcile.Result{RequeueAfter: max(interval, 4*time.Since(f.polled))}, nil
}

func (v *Verifier) setReport(f *rollout, report *verification.Report) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f.report = report
}

// rollout returns the state of a function's rollout. It starts again when the new version has changed,
// and when the pod of a report is gone, because the operator ignores such a report. With other limits,
// there is another report.
func (v *Verifier) rollout(b backend.Backend, found []backend.Pod) *rollout {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.rollouts[b.Service]
	gone := f != nil && f.report != nil && !slices.ContainsFunc(found, func(p backend.Pod) bool { return p.UID == f.report.Pod && !p.Terminating })
	switch {
	case f == nil || f.limits.Template != b.Verify.Template || gone:
		f = &rollout{limits: *b.Verify, pods: map[types.UID]*podCounts{}}
		v.rollouts[b.Service] = f
	case f.limits != *b.Verify:
		f.limits, f.report = *b.Verify, nil
	}
	return f
}

// poll reads the totals of the ready pods, at most maxPolled new and maxPolled old ones. It chooses
// those with the lowest UIDs, which are the same each time while no pod is added.
func (f *rollout) poll(ctx context.Context, found []backend.Pod) {
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
			c = &podCounts{isNew: isNew}
			f.pods[pod.UID] = c
		}
		group.Go(func() { c.poll(ctx, pod) })
	}
	group.Wait()
	if f.newPod != "" {
		return
	}
	for _, c := range f.pods { // old pods count from when a new one is ready
		if !c.isNew {
			c.first = c.last
		}
	}
}

// poll reads the totals of a pod, and corrects impossible ones: the code of the pod is not trusted.
func (c *podCounts) poll(ctx context.Context, pod backend.Pod) {
	var a backend.Activity
	if a, c.err = pod.Activity(ctx); c.err != nil {
		return
	}
	if a.Failed == nil {
		c.err = errOldRuntime
		return
	}
	served := max(a.Served, 0)
	now := verification.Counts{Requests: served, Failed: min(max(*a.Failed, 0), served), Rejected: max(a.Rejected, 0)}
	c.inFlight = a.InFlight
	if c.isNew && !c.responded && a.UptimeSeconds <= justStarted.Seconds() {
		c.last, c.responded = now, true // all its requests count
		return
	}
	if !c.responded || now.Requests < c.last.Requests || now.Failed < c.last.Failed || now.Rejected < c.last.Rejected { // the first poll, or the process was restarted
		c.first = now
	}
	c.last, c.responded = now, true
}

// errOldRuntime is the error for a function that was built before Goless counted failed requests.
var errOldRuntime = errors.New("the function was built by an earlier version of Goless, which does not count failed requests")

// maxProblem is the maximum length of the problem in a report, in bytes. It may contain text of a pod.
const maxProblem = 300

// result returns the report, or nil while there is none.
func (f *rollout) result(found []backend.Pod, now time.Time) *verification.Report {
	var since time.Time
	for _, pod := range found {
		if pod.Ready && pod.Template == f.limits.Template && (since.IsZero() || pod.ReadySince.Before(since)) {
			since, f.newPod = pod.ReadySince, pod.UID
		}
	}
	latest, old := f.sum(true), f.sum(false)
	report := verification.Report{
		Template: f.limits.Template, Pod: f.newPod, New: latest.window, Previous: old.window, Problem: cmp.Or(latest.problem(), old.problem()),
	}
	if old.window.Requests < f.limits.MinRequests {
		report.Previous = old.all
	}
	lasted, waits := now.Sub(since), latest.window.Received() < f.limits.MinRequests && latest.inFlight > 0
	over := !since.IsZero() && (lasted >= f.limits.Longest() || lasted >= f.limits.For() && !waits)
	if over || report.Problem == "" && f.limits.Worse(report.New, report.Previous) {
		return &report
	}
	return nil
}

// sums are the requests of all new or all old pods.
type sums struct {
	window, all verification.Counts // since podCounts.first, and since the processes started
	inFlight    int
	responded   bool  // at least one pod
	err         error // of one pod
}

// sum returns the requests of the new or the old pods.
func (f *rollout) sum(isNew bool) (s sums) {
	for _, c := range f.pods {
		if c.isNew != isNew {
			continue
		}
		s.window = plus(s.window, verification.Counts{
			Requests: c.last.Requests - c.first.Requests, Failed: c.last.Failed - c.first.Failed, Rejected: c.last.Rejected - c.first.Rejected,
		})
		s.all = plus(s.all, c.last)
		s.inFlight += c.inFlight
		s.responded = s.responded || c.responded
		if c.err != nil {
			s.err = c.err
		}
	}
	return s
}

// problem returns why the requests are unknown; empty if a pod has responded, or if there are none.
func (s sums) problem() string {
	if s.responded || s.err == nil {
		return ""
	}
	text := s.err.Error()
	return strings.ToValidUTF8(text[:min(len(text), maxProblem)], "")
}

func plus(a, b verification.Counts) verification.Counts {
	return verification.Counts{Requests: a.Requests + b.Requests, Failed: a.Failed + b.Failed, Rejected: a.Rejected + b.Rejected}
}
