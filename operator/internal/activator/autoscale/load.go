package autoscale

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/operator/internal/activator/backend"
)

const (
	// maxPolled is the number of pods of a function that are polled.
	maxPolled = 10

	// window is the time over which requests in flight are averaged. With random arrivals, the load
	// of a shorter time differs too often from the target by more than the tolerance.
	window = 6 * time.Second

	// maxPerPod bounds the average that a pod may report, because its code is not trusted.
	maxPerPod = 1e6
)

// maxSamples bounds the samples of a pod within the window: one for each poll, the first one, and one
// more for polls that are a little early.
const maxSamples = int(window/interval) + 2

// maxPause is the maximum delay before an unresponsive pod is polled again. The delay doubles with
// each failure, so that such pods do not delay the evaluation of other functions.
const maxPause = 30 * time.Second

// histories contains what the pods of a function have reported.
type histories map[types.UID]*podHistory

// podHistory is what a pod has reported within the window.
type podHistory struct {
	samples  []backend.Activity // the oldest first
	failures int                // consecutive
	err      error              // of the last one
	next     time.Time          // time of the next poll at the earliest
}

// poll polls at most maxPolled of the ready pods. err is that of one pod that did not respond.
func (p histories) poll(ctx context.Context, ready []backend.Pod) (l Load, err error) {
	// UIDs are random. The same pods are polled again the next time.
	polled := slices.SortedFunc(slices.Values(ready), func(a, b backend.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
	polled = polled[:min(len(polled), maxPolled)]
	known := histories{}
	for _, pod := range polled {
		known[pod.UID] = cmp.Or(p[pod.UID], &podHistory{})
	}
	maps.DeleteFunc(p, func(uid types.UID, _ *podHistory) bool { return known[uid] == nil })
	maps.Copy(p, known)

	averages := make([]float64, len(polled))
	var wg sync.WaitGroup
	for i, pod := range polled {
		wg.Go(func() { averages[i] = known[pod.UID].poll(ctx, pod) })
	}
	wg.Wait()
	l = Load{Ready: len(ready), Polled: len(polled)}
	for i, pod := range polled {
		if failed := known[pod.UID].err; failed != nil {
			l.Unresponsive++
			err = failed
			continue
		}
		l.Requests += averages[i]
	}
	return l, err
}

// poll returns the average number of requests in flight of a pod. If the pod does not respond, err is
// set.
func (r *podHistory) poll(ctx context.Context, pod backend.Pod) float64 {
	if time.Now().Before(r.next) {
		return 0
	}
	var now backend.Activity
	if now, r.err = pod.Activity(ctx); r.err != nil {
		r.failures++
		r.next = time.Now().Add(min(interval<<min(r.failures-1, 10), maxPause))
		return 0
	}
	r.failures = 0
	return r.average(now)
}

// average returns the average number of requests in flight within the window, and records now for
// the next one.
func (r *podHistory) average(now backend.Activity) float64 {
	before := r.samples
	if n := len(before); n > 0 && (now.UptimeSeconds <= before[n-1].UptimeSeconds || now.InFlightSeconds < before[n-1].InFlightSeconds) {
		before = nil // the container was restarted
	}
	// The oldest one that is kept is at least one window old, or the first one.
	for len(before) > 1 && (now.UptimeSeconds-before[1].UptimeSeconds >= window.Seconds() || len(before) > maxSamples) {
		before = before[1:]
	}
	r.samples = append(slices.Clip(before), now)
	switch {
	case len(before) > 0:
		return demand(before[0], now)
	case 0 < now.UptimeSeconds && now.UptimeSeconds <= window.Seconds():
		return demand(backend.Activity{}, now)
	}
	// The first poll of this pod, or its runtime is too old to report totals.
	return min(max(float64(now.InFlight), 0), maxPerPod)
}

// retryAfter is the time after which a client repeats a rejected request: the runtime sends it in
// the header Retry-After.
const retryAfter = 1.0 // seconds

// demand returns the average number of requests in flight between two samples of a process. A
// rejected request counts as if it had been served and had taken as long as the served ones, but at
// most retryAfter, because then the client repeats it and it counts again.
func demand(from, to backend.Activity) float64 {
	passed, inFlight := to.UptimeSeconds-from.UptimeSeconds, to.InFlightSeconds-from.InFlightSeconds
	each := retryAfter
	if served := to.Served - from.Served; served > 0 {
		each = min(each, inFlight/float64(served))
	}
	rejected := max(float64(to.Rejected-from.Rejected), 0)
	return min(max((inFlight+rejected*each)/passed, 0), maxPerPod)
}
