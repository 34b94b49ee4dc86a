package delivery

import "time"

// Backoff is an exponential backoff: First after the first attempt, then twice the previous delay,
// up to Max. Half of each delay is random, so that clients that failed together do not retry
// together.
//
// MaxPause replaces Max for a Pause: the function has not received the event because it starts,
// wakes or is busy, and has nothing to recover from.
type Backoff struct {
	First, Max, MaxPause time.Duration
}

// DefaultBackoff reaches a delay of one minute after eight attempts.
var DefaultBackoff = Backoff{First: 500 * time.Millisecond, Max: time.Minute, MaxPause: 5 * time.Second}

// Wait returns the delay after attempt n, which counts from 1, but at least least. chance is a
// random number from 0 to 1.
func (b Backoff) Wait(n int, least time.Duration, chance float64) time.Duration {
	wait := b.First
	for ; n > 1 && wait < b.Max; n-- {
		wait *= 2
	}
	wait = min(wait, b.Max)
	return max(wait/2+time.Duration(chance*float64(wait/2)), least)
}
