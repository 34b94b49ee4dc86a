package delivery

import "time"

// Backoff is an exponential backoff: First after the first attempt, then twice the previous delay,
// up to Max. Half of each delay is random, so that clients that failed together do not retry
// together.
//
// MaxPause replaces Max for a Pause: the function has not received the event because it is
// starting, waking up or busy, so it does not need time to recover.
type Backoff struct {
	First, Max, MaxPause time.Duration
}

// DefaultBackoff reaches a delay of one minute after eight attempts.
var DefaultBackoff = Backoff{First: 500 * time.Millisecond, Max: time.Minute, MaxPause: 5 * time.Second}

// Wait returns the delay after attempt n (counted from 1), but not less than minimum. chance is a
// random number from 0 to 1.
func (b Backoff) Wait(n int, minimum time.Duration, chance float64) time.Duration {
	wait := b.First
	for ; n > 1 && wait < b.Max; n-- {
		wait *= 2
	}
	wait = min(wait, b.Max)
	return max(wait/2+time.Duration(chance*float64(wait/2)), minimum)
}
