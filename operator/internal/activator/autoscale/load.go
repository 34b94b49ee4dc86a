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
const maxPause = 5 * time.Second

// histories contains what the pods of a function have reported.
type histories map[types.UID]*podHistory

// podHistory is what a pod has reported within the window.
type podHistory struct {
	samples  []backend.Activity // the oldest first
	average  float64            // number of requests in flight within the window
	measured bool               // whether average is known
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

	var wg sync.WaitGroup
	for _, pod := range polled {
		if h := known[pod.UID]; time.Now().After(h.next) {
			wg.Go(func() { h.poll(ctx, pod) })
			l.Fresh = true
		}
	}
	wg.Wait()
	l.Ready = len(ready)
	for _, h := range known {
		switch {
		case h.err != nil:
			l.Polled++
			l.Unresponsive++
			err = h.err
		case h.measured:
			l.Polled++
			l.Requests += h.average
		}
	}
	return l, err
}

// poll measures the average number of requests in flight of a pod.
func (h *podHistory) poll(ctx context.Context, pod backend.Pod) {
	var now backend.Activity
	if now, h.err = pod.Activity(ctx); h.err != nil {
		h.failures++
		h.next = time.Now().Add(min(interval<<min(h.failures-1, 10), maxPause))
		return
	}
	h.failures = 0
	h.average, h.measured = h.add(now)
}

// add returns the average number of requests in flight within the window, and records now for the
// next one. It returns false for the first sample of a pod that has run for longer than the window.
func (h *podHistory) add(now backend.Activity) (average float64, ok bool) {
	before := h.samples
	if n := len(before); n > 0 && (now.UptimeSeconds <= before[n-1].UptimeSeconds || now.InFlightSeconds < before[n-1].InFlightSeconds) {
		before = nil // the container was restarted
	}
	if n := len(before); n > 0 && now.UptimeSeconds-before[n-1].UptimeSeconds > 2*window.Seconds() {
		before = nil // the pod did not respond for a while, and the average would be that of the whole time
	}
	// The oldest one that is kept is at least one window old, or the first one.
	for len(before) > 1 && (now.UptimeSeconds-before[1].UptimeSeconds >= window.Seconds() || len(before) > maxSamples) {
		before = before[1:]
	}
	h.samples = append(slices.Clip(before), now)
	switch {
	case len(before) > 0:
		return demand(before[0], now), true
	case 0 < now.UptimeSeconds && now.UptimeSeconds <= window.Seconds():
		return demand(backend.Activity{}, now), true
	case now.UptimeSeconds > 0:
		return 0, false
	}
	// The runtime is too old to report totals.
	return min(max(float64(now.InFlight), 0), maxPerPod), true
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
