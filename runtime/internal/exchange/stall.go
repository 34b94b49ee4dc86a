package exchange

import (
	"sync"
	"sync/atomic"
	"time"
)

// A stall ends what waits for the client for too long. It does not use the
// deadlines of HTTP/2 as they are meant: those end a stream for good, whether
// anything waits or not, and a handler that thinks for a while has not stalled.
type stall struct {
	limit time.Duration // 0 for none
	end   func()        // interrupts what waits
	owned atomic.Bool   // the handler sets deadlines itself

	mu      sync.Mutex
	waiting int
	timer   *time.Timer
}

// begin is called before anything that may wait.
func (s *stall) begin() {
	if s.limit == 0 || s.owned.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting++
	if s.timer == nil {
		s.timer = time.AfterFunc(s.limit, s.over)
		return
	}
	s.timer.Reset(s.limit)
}

// done is called after it.
func (s *stall) done() {
	if s.limit == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting = max(s.waiting-1, 0); s.waiting == 0 && s.timer != nil {
		s.timer.Stop()
	}
}

// over ends what waits. The lock makes sure that it still does.
func (s *stall) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting > 0 && !s.owned.Load() {
		s.end()
	}
}
