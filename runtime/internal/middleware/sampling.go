package middleware

import (
	"sync/atomic"
	"time"
)

// Sampling keeps of the lines of a second the first ones, and then each so
// manyth, or none if Thereafter is 0. A nil Sampling keeps all.
type Sampling struct {
	First, Thereafter uint64
	// Dropped, if not nil, is called for each line that is not kept.
	Dropped func()

	second atomic.Int64
	seen   atomic.Uint64
}

// Keep decides on a line at the time now.
func (s *Sampling) Keep(now time.Time) bool {
	if s == nil {
		return true
	}
	second := now.Unix()
	if old := s.second.Load(); old != second && s.second.CompareAndSwap(old, second) {
		s.seen.Store(0)
	}
	n := s.seen.Add(1)
	if n <= s.First || s.Thereafter > 0 && (n-s.First)%s.Thereafter == 0 {
		return true
	}
	if s.Dropped != nil {
		s.Dropped()
	}
	return false
}
