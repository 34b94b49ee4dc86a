package exchange

import (
	"sync"
	"sync/atomic"
	"time"
)

// An idleTimer ends reads and writes that wait for the client for too long. A deadline
// that is set in advance would not do for HTTP/2: when it passes, it ends the stream
// even if nothing waits, and a handler that computes for a while has not stalled.
type idleTimer struct {
	limit              time.Duration // 0 for none
	end                func()        // interrupts what waits
	handlerSetDeadline atomic.Bool   // which takes the place of limit

	mu      sync.Mutex
	waiting int
	timer   *time.Timer
}

// begin is called before anything that may wait.
func (t *idleTimer) begin() {
	if t.limit == 0 || t.handlerSetDeadline.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting++
	if t.timer == nil {
		t.timer = time.AfterFunc(t.limit, t.over)
		return
	}
	t.timer.Reset(t.limit)
}

// done is called after it.
func (t *idleTimer) done() {
	if t.limit == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting = max(t.waiting-1, 0); t.waiting == 0 && t.timer != nil {
		t.timer.Stop()
	}
}

// over ends what waits, if anything still does.
func (t *idleTimer) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting > 0 && !t.handlerSetDeadline.Load() {
		t.end()
	}
}
