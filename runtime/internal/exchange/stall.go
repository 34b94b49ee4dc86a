package exchange

import (
	"sync"
	"sync/atomic"
	"time"
)

// A stallTimer interrupts reads and writes that wait too long for the client. Deadlines that
// are set in advance are not suitable for HTTP/2: when one passes, it ends the stream even if
// no read or write is pending, and a handler that computes for a while has not stalled.
type stallTimer struct {
	limit     time.Duration // 0 for none
	interrupt func()        // interrupts pending reads or writes
	disabled  atomic.Bool   // the handler has set a deadline, which replaces limit
	expired   atomic.Bool   // interrupt was called

	mu      sync.Mutex
	waiting int // number of pending reads and writes
	timer   *time.Timer
}

// enabled reports whether there is a limit that the handler has not replaced.
func (t *stallTimer) enabled() bool { return t.limit > 0 && !t.disabled.Load() }

// begin is called before each read or write. It restarts the timer for all pending ones,
// because a new read or write means that there was progress.
func (t *stallTimer) begin() {
	if !t.enabled() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting++
	if t.timer == nil {
		t.timer = time.AfterFunc(t.limit, t.expire)
		return
	}
	t.timer.Reset(t.limit)
}

// end is called after each read or write.
func (t *stallTimer) end() {
	if t.limit == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting > 0 { // 0 if the timer was disabled at begin
		t.waiting--
	}
	if t.waiting == 0 && t.timer != nil {
		t.timer.Stop()
	}
}

// expire interrupts the pending reads and writes, if there still are any.
func (t *stallTimer) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting > 0 && t.enabled() {
		t.expired.Store(true) // before the interrupted read or write returns
		t.interrupt()
	}
}
