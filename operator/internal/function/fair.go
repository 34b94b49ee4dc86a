package function

import (
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// workers is how many Functions are looked at at the same time, those included
	// for which no answer comes.
	workers = 128

	// brisk is how many of them there are beside those that wait. More would take
	// the processors from each other, and not let new Functions go first.
	brisk = 8

	// hesitation is after how long a look is taken to wait: for the API server, or for
	// what somebody has put in its way there.
	hesitation = 250 * time.Millisecond

	// Share is how many of them are Functions of one namespace at most. What hangs
	// mostly hangs for all of a namespace, a webhook of somebody's, and not for
	// others.
	Share = workers / 2
)

// fair is a queue in which nobody waits for what hangs. A Function does not count
// any more among those that are looked at when that takes long, and those of one
// namespace never take all workers. What has to wait for its namespace's turn is, to
// the metrics of the queue, in the works.
type fair struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	brisk chan struct{} // has an element for each
	ended chan struct{}

	mu         sync.Mutex
	namespaces map[string]*turns
	waits      map[reconcile.Request]*time.Timer
}

// turns are what one namespace has of the workers, and what waits for its turn.
type turns struct {
	taken   int
	waiting []turn
}

type turn struct {
	request  reconcile.Request
	priority int
}

func newFair(name string, limiter workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	return &fair{
		PriorityQueue: priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter }),
		brisk:         make(chan struct{}, brisk),
		ended:         make(chan struct{}),
		namespaces:    map[string]*turns{},
		waits:         map[reconcile.Request]*time.Timer{},
	}
}

// ShutDown ends all waiting.
func (q *fair) ShutDown() {
	close(q.ended)
	q.PriorityQueue.ShutDown()
}

// Get is GetWithPriority for who does not ask for priorities.
func (q *fair) Get() (reconcile.Request, bool) {
	request, _, shutdown := q.GetWithPriority()
	return request, shutdown
}

// GetWithPriority waits for a Function whose turn it is.
func (q *fair) GetWithPriority() (reconcile.Request, int, bool) {
	select {
	case q.brisk <- struct{}{}:
	case <-q.ended:
		return reconcile.Request{}, 0, true
	}
	for {
		request, priority, shutdown := q.PriorityQueue.GetWithPriority()
		if shutdown || q.takes(turn{request, priority}) {
			return request, priority, shutdown
		}
	}
}

// takes tells whether it is the turn of a Function. If not, it waits, and is handed
// out by nobody until then: the queue was not told that it is done.
func (q *fair) takes(t turn) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	namespace := q.namespaces[t.request.Namespace]
	if namespace == nil {
		namespace = &turns{}
		q.namespaces[t.request.Namespace] = namespace
	}
	if namespace.taken == Share {
		namespace.waiting = append(namespace.waiting, t)
		return false
	}
	namespace.taken++
	q.waits[t.request] = time.AfterFunc(hesitation, func() { <-q.brisk })
	return true
}

// Done ends a turn. The next one of the namespace is back in the queue then.
func (q *fair) Done(request reconcile.Request) {
	next, ok := q.next(request)
	q.PriorityQueue.Done(request)
	if ok {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: &next.priority}, next.request)
		q.PriorityQueue.Done(next.request)
	}
}

// next gives a turn back, and has who waits the longest of the most urgent ones.
func (q *fair) next(done reconcile.Request) (turn, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waits[done].Stop() {
		<-q.brisk
	}
	delete(q.waits, done)
	namespace := q.namespaces[done.Namespace]
	namespace.taken--
	if len(namespace.waiting) == 0 {
		if namespace.taken == 0 {
			delete(q.namespaces, done.Namespace)
		}
		return turn{}, false
	}
	first := 0
	for i, t := range namespace.waiting {
		if t.priority > namespace.waiting[first].priority {
			first = i
		}
	}
	next := namespace.waiting[first]
	namespace.waiting = slices.Delete(namespace.waiting, first, first+1)
	return next, true
}
