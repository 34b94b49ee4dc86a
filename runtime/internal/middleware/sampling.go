package middleware

import (
	"sync"
	"time"
)

// A Sampler keeps the first First lines of each second, and then every Thereafter-th line, or
// none if Thereafter is 0. A nil Sampler keeps all lines.
type Sampler struct {
	First, Thereafter uint64
	// Dropped, if not nil, is called for each dropped line.
	Dropped func()

	mu     sync.Mutex
	second int64 // since epoch
	seen   uint64
}

// epoch is the start of the first second. Its monotonic clock is not affected by changes of the
// system time.
var epoch = time.Now()

// Keep reports whether to keep a line at the time now.
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

// count returns the number of the line in its second. Lines of a past second count in the
// current one.
func (s *Sampler) count(second int64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if second > s.second {
		s.second, s.seen = second, 0
	}
	s.seen++
	return s.seen
}
