package delivery

import "time"

// Backoff is how long to wait between tries: First after the first one, twice as long after
// each further one, and Max at most. Half of each wait is chosen by chance, so that those who
// failed together do not come back together.
//
// MaxPause is in the place of Max where the function has not seen the event, because it starts
// or wakes, and has nothing to recover from.
type Backoff struct {
	First, Max, MaxPause time.Duration
}

// DefaultBackoff reaches a minute after eight tries.
var DefaultBackoff = Backoff{First: 500 * time.Millisecond, Max: time.Minute, MaxPause: 5 * time.Second}

// Wait is for how long to wait after try n, which counts from 1. chance is from 0 to 1.
// Where least is longer, it is that.
func (b Backoff) Wait(n int, least time.Duration, chance float64) time.Duration {
	wait := b.First
	for ; n > 1 && wait < b.Max; n-- {
		wait *= 2
	}
	wait = min(wait, b.Max)
	return max(wait/2+time.Duration(chance*float64(wait/2)), least)
}
