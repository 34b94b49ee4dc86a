package backend

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

const (
	// concurrentPolls is the maximum number of functions polled at a time.
	concurrentPolls = 32

	// pollTimeout is the time in which all pods of a function must respond.
	pollTimeout = 30 * time.Second

	// maxAge is the age at which a result expires. A result is normally taken immediately, unless
	// the function has changed.
	maxAge = 5 * time.Second

	// minBackoff and maxBackoff bound the delay after a failure, which doubles with each further
	// failure.
	minBackoff = 10 * time.Second
	maxBackoff = 5 * time.Minute

	// toleratedFailures is the number of consecutive failures that are not reported: a pod may be
	// busy.
	toleratedFailures = 2
)

// A Poller polls the pods of functions for their idle time. Its methods do not block on a pod; an
// event on Answered announces a result.
type Poller struct {
	// Answered receives an event for the Service of a function after its pods were polled.
	Answered chan event.TypedGenericEvent[types.NamespacedName]

	slots chan struct{} // one element for each function being polled
	mu    sync.Mutex
	polls map[types.NamespacedName]*poll // by Service
}

// A PollResult is the time for which the pods of a function have served no request.
type PollResult struct {
	At   time.Time     // when the first pod was queried
	Idle time.Duration // as of At
	Err  error         // why a pod could not be queried
}

// poll is the polling state of one function.
type poll struct {
	admins    []string // admin addresses of the pods
	polling   bool
	result    *PollResult // nil if there is none or it was taken
	received  time.Time   // when the result was received
	failures  int         // consecutive
	next      time.Time   // time of the next poll at the earliest
	lastError string      // empty until there are more than toleratedFailures
}

// NewPoller returns a Poller.
func NewPoller() *Poller {
	return &Poller{
		Answered: make(chan event.TypedGenericEvent[types.NamespacedName], concurrentPolls),
		slots:    make(chan struct{}, concurrentPolls),
		polls:    map[types.NamespacedName]*poll{},
	}
}

// Take returns the result for exactly these pods and removes it. If there is none, it starts a poll
// and returns false. During the backoff after a failed poll, it starts no poll, and returns the
// remaining time as wait.
func (p *Poller) Take(service types.NamespacedName, pods []Pod) (a PollResult, ok bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	admins := adminAddresses(pods)
	known := p.polls[service]
	if known == nil || !slices.Equal(known.admins, admins) {
		known = &poll{admins: admins}
		p.polls[service] = known
	}
	if result := known.result; result != nil {
		known.result = nil
		if time.Since(known.received) <= maxAge {
			return *result, true, 0
		}
	}
	if wait := time.Until(known.next); wait > 0 {
		return PollResult{}, false, wait
	}
	if !known.polling {
		known.polling = true
		go p.run(service, known, pods)
	}
	return PollResult{}, false, 0
}

// run polls the pods of a function.
func (p *Poller) run(service types.NamespacedName, known *poll, pods []Pod) {
	p.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	a := PollResult{At: time.Now()}
	a.Idle, a.Err = IdleTime(ctx, pods)
	cancel()
	// A pod may have received a request since the first one was queried.
	a.Idle = max(a.Idle-time.Since(a.At), 0)
	<-p.slots

	p.mu.Lock()
	known.polling, known.result, known.received = false, &a, time.Now()
	if a.Err == nil {
		known.failures, known.next, known.lastError = 0, time.Time{}, ""
	} else {
		known.failures++
		known.next = time.Now().Add(backoff(known.failures))
		if known.failures > toleratedFailures {
			known.lastError = a.Err.Error()
		}
	}
	p.mu.Unlock()
	p.Answered <- event.TypedGenericEvent[types.NamespacedName]{Object: service}
}

// backoff returns the delay after a number of consecutive failures.
func backoff(failures int) time.Duration { return min(minBackoff<<min(failures-1, 10), maxBackoff) }

// LastError returns why the pods of a function cannot be queried. It is empty if the last poll
// succeeded, and for the first two consecutive failures.
func (p *Poller) LastError(service types.NamespacedName) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.polls[service]; known != nil {
		return known.lastError
	}
	return ""
}

// Forget removes the state of a function.
func (p *Poller) Forget(service types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.polls, service)
}

func adminAddresses(pods []Pod) []string {
	var admins []string
	for _, pod := range pods {
		admins = append(admins, pod.Admin)
	}
	slices.Sort(admins)
	return admins
}
