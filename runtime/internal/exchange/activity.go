package exchange

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// started stands for the end of a request before the first one.
var started = time.Now()

// activity is what a server remembers of its requests to tell whether it is idle.
type activity struct {
	running atomic.Int64
	overdue atomic.Int64
	lastEnd atomic.Int64 // nanoseconds since started

	mu        sync.Mutex
	unsettled map[*Exchange]struct{}
}

// begin remembers x until it is settled.
func (a *activity) begin(x *Exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unsettled == nil {
		a.unsettled = make(map[*Exchange]struct{})
	}
	a.unsettled[x] = struct{}{}
}

func (a *activity) settled(x *Exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.unsettled, x)
}

// Unsettled returns the exchanges that no observer has seen yet, in no order.
func (a *activity) Unsettled() []*Exchange {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.unsettled))
}

// Running returns how many handlers have begun and not returned, whether their
// exchange is settled or not, and whether they took over their connection.
func (a *activity) Running() int64 { return a.running.Load() }

// Overdue returns how many of the running handlers have a request whose time is over, so that
// their client hears nothing of them any more.
func (a *activity) Overdue() int64 { return a.overdue.Load() }

// Activity returns how many requests are in flight and, if there are none, the time since the last one
// ended, or since the start of the process. A hijacked connection is in flight until its handler
// returns, even if the handler leaves it open.
func (a *activity) Activity() (inFlight int64, idle time.Duration) {
	if inFlight = a.Running(); inFlight > 0 {
		return inFlight, 0
	}
	return 0, time.Since(started) - time.Duration(a.lastEnd.Load())
}

func (a *activity) recordLastEnd() { a.lastEnd.Store(int64(time.Since(started))) }
