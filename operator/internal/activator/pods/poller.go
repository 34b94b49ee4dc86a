package pods

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

const (
	// concurrentPolls is how many functions are asked at the same time.
	concurrentPolls = 32

	// pollTimeout is how long all pods of a function may take to answer.
	pollTimeout = 30 * time.Second

	// maxAge is how long an answer can be taken. It is taken at once, unless the function has changed.
	maxAge = 5 * time.Second

	// minBackoff and maxBackoff bound the pause after an error, which doubles with each that follows.
	minBackoff = 10 * time.Second
	maxBackoff = 5 * time.Minute

	// quietFailures is how many errors in a row are not reported: a pod may be busy.
	quietFailures = 2
)

// A Poller asks the pods of functions for how long they have been idle. Its callers do not wait for a pod:
// it sends an event when there is an answer.
type Poller struct {
	// Answered has an event for each function, by its Service, whose pods were asked.
	Answered chan event.TypedGenericEvent[types.NamespacedName]

	slots chan struct{} // has one element for each function that is being asked
	mu    sync.Mutex
	polls map[types.NamespacedName]*poll // by Service
}

// An Answer is for how long the pods of a function have served no request.
type Answer struct {
	At   time.Time     // when the first pod was asked
	Idle time.Duration // at that time
	Err  error         // why a pod could not be asked
}

// poll is what is known of one function.
type poll struct {
	admins   []string // where the pods were asked
	asking   bool
	answer   *Answer   // nil when there is none, or it was taken
	answered time.Time // since when there is the answer
	failures int       // in a row
	next     time.Time // before which the pods are not asked again
	trouble  string    // what is reported of the failures
}

// NewPoller returns a Poller.
func NewPoller() *Poller {
	return &Poller{
		Answered: make(chan event.TypedGenericEvent[types.NamespacedName], concurrentPolls),
		slots:    make(chan struct{}, concurrentPolls),
		polls:    map[types.NamespacedName]*poll{},
	}
}

// Take returns the answer of exactly these pods, once. If there is none, it returns false and asks them,
// or returns after how long to call Take again where they did not answer just before.
func (p *Poller) Take(service types.NamespacedName, pods []Pod) (a Answer, ok bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	admins := adminsOf(pods)
	known := p.polls[service]
	if known == nil || !slices.Equal(known.admins, admins) {
		known = &poll{admins: admins}
		p.polls[service] = known
	}
	if answer := known.answer; answer != nil {
		known.answer = nil
		if time.Since(known.answered) <= maxAge {
			return *answer, true, 0
		}
	}
	if wait := time.Until(known.next); wait > 0 {
		return Answer{}, false, wait
	}
	if !known.asking {
		known.asking = true
		go p.ask(service, known, pods)
	}
	return Answer{}, false, 0
}

// ask asks the pods of a function.
func (p *Poller) ask(service types.NamespacedName, known *poll, pods []Pod) {
	p.slots <- struct{}{}
	ctx, cancel := context.WithTimeout(context.Background(), pollTimeout)
	a := Answer{At: time.Now()}
	a.Idle, a.Err = Idle(ctx, pods)
	cancel()
	// A pod may have had a request since the first one was asked.
	a.Idle = max(a.Idle-time.Since(a.At), 0)
	<-p.slots

	p.mu.Lock()
	known.asking, known.answer, known.answered = false, &a, time.Now()
	if a.Err == nil {
		known.failures, known.next, known.trouble = 0, time.Time{}, ""
	} else {
		known.failures++
		known.next = time.Now().Add(backoff(known.failures))
		if known.failures > quietFailures {
			known.trouble = a.Err.Error()
		}
	}
	p.mu.Unlock()
	p.Answered <- event.TypedGenericEvent[types.NamespacedName]{Object: service}
}

// backoff is the pause after so many errors in a row.
func backoff(failures int) time.Duration { return min(minBackoff<<min(failures-1, 10), maxBackoff) }

// Trouble returns why the pods of a function cannot be asked; empty while they answer, and after the first
// failures.
func (p *Poller) Trouble(service types.NamespacedName) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.polls[service]; known != nil {
		return known.trouble
	}
	return ""
}

// Forget drops what is known of a function.
func (p *Poller) Forget(service types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.polls, service)
}

func adminsOf(pods []Pod) []string {
	var admins []string
	for _, pod := range pods {
		admins = append(admins, pod.Admin)
	}
	slices.Sort(admins)
	return admins
}
