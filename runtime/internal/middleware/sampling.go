package middleware

import (
	"sync"
	"time"
)

// A Sampler keeps the First lines of each second and then every Thereafter-th line,
// or no more if Thereafter is 0. A nil Sampler keeps all.
type Sampler struct {
	First, Thereafter uint64
	// Dropped, if not nil, is called for each line that is not kept.
	Dropped func()

	mu     sync.Mutex
	second int64 // since epoch
	seen   uint64
}

// epoch is where seconds are counted from. Its monotonic clock is never set back.
var epoch = time.Now()

// Keep decides on a line at the time now.
func (s *Sampler) Keep(now time.Time) bool {
	if s == nil {
		return true
	}
	n := s.count(int64(now.Sub(epoch) / time.Second))
	if n <= s.First || s.Thereafter > 0 && (n-s.First)%s.Thereafter == 0 {
		return true
	}
	if s.Dropped != nil {
		s.Dropped()
	}
	return false
}

// count returns the number of the line in its second. A line that comes late, of a
// second that is over, counts in the present one.
func (s *Sampler) count(second int64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if second > s.second {
		s.second, s.seen = second, 0
	}
	s.seen++
	return s.seen
}
