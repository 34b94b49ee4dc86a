package exchange

import (
	"sync"
	"sync/atomic"
	"time"
)

// A stallTimer interrupts reads and writes that wait for the client for too long. A
// deadline that is set in advance would not do for HTTP/2: when it passes, it ends the
// stream even if nothing waits, and a handler that computes for a while has not stalled.
type stallTimer struct {
	limit     time.Duration // 0 for none
	interrupt func()        // interrupts the reads or writes that wait
	disabled  atomic.Bool   // the handler has set a deadline, which takes the place of limit
	expired   atomic.Bool   // interrupt was called

	mu      sync.Mutex
	waiting int // how many reads and writes have begun and not ended
	timer   *time.Timer
}

// enabled reports whether there is a limit, and the handler has not replaced it.
func (t *stallTimer) enabled() bool { return t.limit > 0 && !t.disabled.Load() }

// begin is called before each read or write. It gives all that wait the whole limit
// again, since one that begins shows that there was progress.
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
	if t.waiting > 0 { // 0 if the timer was disabled when this one began
		t.waiting--
	}
	if t.waiting == 0 && t.timer != nil {
		t.timer.Stop()
	}
}

// expire interrupts what waits. Nothing may wait any more when it gets the lock.
func (t *stallTimer) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting > 0 && t.enabled() {
		t.expired.Store(true) // before the interrupted read or write returns
		t.interrupt()
	}
}
