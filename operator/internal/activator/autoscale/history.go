package autoscale

import (
	"slices"
	"time"
)

// The defaults of a HorizontalPodAutoscaler.
const (
	// downWindow is how long a recommendation prevents the removal of replicas: the stabilization
	// window of a HorizontalPodAutoscaler.
	downWindow = 5 * time.Minute

	// upPeriod is the time in which the number of replicas at most doubles, or grows by upPods if
	// that is more.
	upPeriod = 15 * time.Second
	upPods   = 4
)

// A History contains the recommendations and changes of one function that still matter. It is
// bounded, because a function is evaluated at most once per interval.
type History struct {
	recommended []change // of the last downWindow, in descending order of their numbers
	added       []change // replicas that were added in the last upPeriod
}

type change struct {
	at time.Time
	n  int32
}

// Highest returns the highest recommendation since now minus downWindow, or 0 if there is none.
func (h *History) Highest(now time.Time) int32 {
	h.recommended = since(h.recommended, now.Add(-downWindow))
	if len(h.recommended) == 0 {
		return 0
	}
	return h.recommended[0].n
}

// Recommend records a recommendation.
func (h *History) Recommend(now time.Time, n int32) {
	// An older recommendation that is not higher ends earlier and never matters again.
	h.recommended = slices.DeleteFunc(h.recommended, func(c change) bool { return c.n <= n })
	h.recommended = append(h.recommended, change{now, n})
}

// Limit returns the maximum number of replicas after a scale-up now.
func (h *History) Limit(now time.Time, current int32) int32 {
	h.added = since(h.added, now.Add(-upPeriod))
	base := current
	for _, c := range h.added {
		base -= c.n
	}
	base = max(base, 1)
	return max(2*base, base+upPods)
}

// Add records that replicas were added.
func (h *History) Add(now time.Time, n int32) { h.added = append(h.added, change{now, n}) }

// since returns the changes after a time. They are in the order of their times.
func since(all []change, after time.Time) []change {
	i := slices.IndexFunc(all, func(c change) bool { return c.at.After(after) })
	if i < 0 {
		return nil
	}
	return all[i:]
}
