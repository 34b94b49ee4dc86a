package exchange

import (
	"sync/atomic"
	"time"
)

// started counts as the end of a request before the first one.
var started = time.Now()

// activity records the requests of a server, to report whether it is idle.
type activity struct {
	running atomic.Int64
	overdue atomic.Int64
	lastEnd atomic.Int64 // nanoseconds since started
}

// Running returns the number of handlers that have been called and have not returned. It
// includes handlers of settled exchanges and of hijacked connections.
func (a *activity) Running() int64 { return a.running.Load() }

// Overdue returns the number of running handlers whose request has timed out. Their clients
// receive nothing more from them.
func (a *activity) Overdue() int64 { return a.overdue.Load() }

// Activity returns the number of requests in flight and, if there are none, the time since the
// last one ended, or since the process started. A hijacked connection counts as a request in
// flight until its handler returns. After that it does not count, even if it is still open.
func (a *activity) Activity() (inFlight int64, idle time.Duration) {
	if inFlight = a.Running(); inFlight > 0 {
		return inFlight, 0
	}
	return 0, time.Since(started) - time.Duration(a.lastEnd.Load())
}

func (a *activity) recordLastEnd() { a.lastEnd.Store(int64(time.Since(started))) }
