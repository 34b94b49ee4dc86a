package exchange

import (
	"sync"
	"time"
)

// unsettled is a list of the exchanges of a server that have reached [Server.TimeLimit] and are not
// settled, in the order in which they did. Except for microseconds, that is also the order of their
// deadlines, because all have the same time limit. So one timer, for the earliest deadline, is
// sufficient.
type unsettled struct {
	mu          sync.Mutex
	first, last *Exchange
	next        *Exchange   // the first one whose deadline has not passed; nil if there is none
	timer       *time.Timer // calls expire; nil before the first request with a time limit
	waiting     bool        // the timer is running
	load        load
}

// listed is the place of an exchange in unsettled, whose lock protects it.
type listed struct {
	previous, following *Exchange
	is                  bool
	expires             bool // expire calls onTimeout
}

// add adds x until remove is called. If expires is true and x has a time limit, onTimeout is called
// when x exceeds it.
func (u *unsettled) add(x *Exchange, expires bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.load.begin(x.Start)
	x.listed = listed{previous: u.last, is: true, expires: expires}
	if u.last == nil {
		u.first = x
	} else {
		u.last.following = x
	}
	u.last = x
	if x.ctx.limit == nil || u.next != nil {
		return
	}
	u.next = x
	switch {
	case u.timer == nil:
		u.timer = time.AfterFunc(x.ctx.limit.duration, u.expire)
	case !u.waiting: // otherwise it ends earlier, and expire restarts it
		u.timer.Reset(x.ctx.limit.duration)
	}
	u.waiting = true
}

// remove removes x, which is settled, if it was added.
func (u *unsettled) remove(x *Exchange) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !x.is {
		return
	}
	u.load.end(x.Start.Add(x.duration), x)
	if u.next == x {
		u.next = x.following
	}
	if x.previous == nil {
		u.first = x.following
	} else {
		x.previous.following = x.following
	}
	if x.following == nil {
		u.last = x.previous
	} else {
		x.following.previous = x.previous
	}
	x.listed = listed{} // a handler may keep x for long, and would also keep its neighbors
}

// expire calls onTimeout of the exchanges whose deadline has passed, and restarts the timer for the
// next one.
func (u *unsettled) expire() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for ; u.next != nil; u.next = u.next.following {
		if left := time.Until(u.next.Start.Add(u.next.ctx.limit.duration)); left > 0 {
			u.timer.Reset(left)
			return
		}
		if u.next.expires {
			go u.next.onTimeout() // it may wait for the lock of the response
		}
	}
	u.waiting = false
}

// Unsettled returns the exchanges that are not settled, oldest first. An exchange is included as
// soon as it enters the handler of [Server.TimeLimit].
func (s *Server) Unsettled() (all []*Exchange) {
	u := &s.unsettled
	u.mu.Lock()
	defer u.mu.Unlock()
	for x := u.first; x != nil; x = x.following {
		all = append(all, x)
	}
	return all
}
