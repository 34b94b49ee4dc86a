package exchange

import (
	"sync/atomic"
	"time"
)

// started is when the process started. Until a request has ended, the idle time is measured from it.
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

// Activity returns the number of running handlers and, if there are none, the time since the last
// one returned, or since the process started. A hijacked connection counts as a request in
// flight until its handler returns. After that it does not count, even if it is still open.
func (a *activity) Activity() (inFlight int64, idle time.Duration) {
	if inFlight = a.Running(); inFlight > 0 {
		return inFlight, 0
	}
	return 0, time.Since(started) - time.Duration(a.lastEnd.Load())
}

func (a *activity) recordLastEnd() { a.lastEnd.Store(int64(time.Since(started))) }

// A Load is what a server has done since the process started. All values only increase, so the
// average number of requests in flight in the time between two Loads is the difference of their
// InFlight divided by the difference of their Uptime, regardless of other readers.
type Load struct {
	// Uptime is the time since the process started.
	Uptime time.Duration
	// InFlight is the integral of the number of requests in flight over Uptime: two requests that
	// take a second each add two seconds, whether they overlap or not.
	InFlight time.Duration
	// Served and Rejected are the numbers of requests that have ended. The handler was not called
	// for a rejected request.
	Served, Rejected int64
	// Failed is the number of served requests with a server error: see [Exchange.Failed].
	Failed int64
}

// Load returns the load until now. A request is in flight from its start until it is settled: a
// handler that continues after its timeout does not count. A hijacked connection counts until its
// handler returns.
func (s *Server) Load() Load {
	u := &s.unsettled
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	u.load.advance(now)
	total := u.load.total
	total.Uptime = now.Sub(started)
	return total
}

// load measures a Load, except for the uptime.
type load struct {
	running int64
	until   time.Time // total contains the requests in flight until this time
	total   Load
}

func (l *load) begin(at time.Time) {
	l.advance(at)
	l.running++
}

func (l *load) end(at time.Time, x *Exchange) {
	l.advance(at)
	l.running--
	if x.ErrorType == ErrorRejected {
		l.total.Rejected++
		return
	}
	l.total.Served++
	if x.Failed() {
		l.total.Failed++
	}
}

// advance adds the requests in flight until now. Concurrent requests may pass times that are some
// microseconds out of order.
func (l *load) advance(now time.Time) {
	if passed := now.Sub(l.until); passed > 0 {
		l.total.InFlight += passed * time.Duration(l.running)
		l.until = now
	}
}
