package buildservice

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// maxQueue is the number of builds that may wait, and maxBytes the size of their sources,
// which are in memory. One namespace may have a quarter of each. When the queue is full, the
// newest build of the namespace with the most is dropped.
const (
	maxQueue = 1024
	maxBytes = 64 << 20
)

const (
	// halfLife is the time after which half of the time that a namespace has built no
	// longer counts.
	halfLife = 10 * time.Minute

	// maxForLastSlot is how long a namespace may have built lately to get the last slot.
	maxForLastSlot = 30 * time.Second
)

// errFull says that no more builds may wait.
var errFull = errors.New("too many builds are waiting, ask again later")

// A queue decides which build is next: one of the namespace that has built for the
// shortest time lately. Time that is longer ago counts less, by halfLife.
//
// A build is never interrupted for another one. So that long builds do not take all
// slots, the last free slot is reserved. It is for namespaces that have no build running
// and have built for less than maxForLastSlot lately, and for builds that may take the
// default time at most. A namespace that builds seldom thus waits for the end of one such
// build at most, whatever the others do.
type queue struct {
	mu      sync.Mutex
	slots   int
	free    int
	running map[*queuedBuild]bool
	waiting map[string][]*queuedBuild // by namespace, the oldest first
	sum     load
	entered int
	built   map[string]usage // by namespace, without what is running
}

// A load is a number of builds and the size of their sources in bytes.
type load struct{ builds, bytes int }

func (l *load) add(builds, bytes int) { l.builds, l.bytes = l.builds+builds, l.bytes+bytes }

// exceeds reports whether a load is too much for a part of the queue: 1 is all of it, and 4 a
// quarter.
func (l load) exceeds(part int) bool { return l.builds > maxQueue/part || l.bytes > maxBytes/part }

// usage is how long a namespace had built at a time.
type usage struct {
	built time.Duration
	at    time.Time
}

// left returns how much of it counts now.
func (u usage) left(now time.Time) time.Duration {
	return time.Duration(float64(u.built) * math.Exp2(-float64(now.Sub(u.at))/float64(halfLife)))
}

// A queuedBuild is a build that waits or runs.
type queuedBuild struct {
	namespace string
	bytes     int  // of the source
	long      bool // it may take longer than the default time
	order     int
	begun     time.Time     // the time of its turn
	turn      chan struct{} // closed at its turn
	dropped   chan struct{} // closed when it has to leave for the build of another namespace
}

func newQueue(slots int) *queue {
	return &queue{slots: slots, free: slots, running: map[*queuedBuild]bool{}, waiting: map[string][]*queuedBuild{}, built: map[string]usage{}}
}

// enter adds a build with a source of so many bytes. A long build may take longer than the
// default time. The caller has to call leave, whether the build has had its turn or not, or was
// dropped. The error is errFull. A namespace that has nothing waiting never gets it.
func (q *queue) enter(namespace string, bytes int, long bool) (*queuedBuild, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.load(namespace)
	own.add(1, bytes)
	if own.exceeds(4) {
		return nil, errFull
	}
	q.entered++
	t := &queuedBuild{namespace: namespace, bytes: bytes, long: long, order: q.entered, turn: make(chan struct{}), dropped: make(chan struct{})}
	q.waiting[namespace] = append(q.waiting[namespace], t)
	q.sum.add(1, bytes)
	q.next(time.Now())
	for q.sum.exceeds(1) && !q.running[t] {
		surplus := q.surplus(t)
		q.remove(surplus)
		if surplus == t {
			return nil, errFull
		}
		close(surplus.dropped)
	}
	return t, nil
}

// load returns what a namespace has waiting.
func (q *queue) load(namespace string) (sum load) {
	for _, t := range q.waiting[namespace] {
		sum.add(1, t.bytes)
	}
	return sum
}

// surplus returns the build to drop from a queue that is too full since added has entered: the
// newest build of the namespace with the most. The only build of a namespace stays if it was
// added last, so that a namespace which builds seldom is not locked out.
func (q *queue) surplus(added *queuedBuild) (newest *queuedBuild) {
	var most int
	for namespace, queued := range q.waiting {
		if namespace == added.namespace && len(queued) == 1 {
			continue
		}
		sum, last := q.load(namespace), queued[len(queued)-1]
		size := sum.bytes
		if q.sum.builds > maxQueue {
			size = sum.builds
		}
		if newest == nil || cmp.Or(cmp.Compare(size, most), cmp.Compare(last.order, newest.order)) > 0 {
			newest, most = last, size
		}
	}
	return newest
}

// leave removes a build that waits, ends one that runs, and ignores one that was dropped.
func (q *queue) leave(t *queuedBuild) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	if q.running[t] {
		delete(q.running, t)
		q.free++
		q.built[t.namespace] = usage{q.built[t.namespace].left(now) + now.Sub(t.begun), now}
	} else {
		q.remove(t)
	}
	q.next(now)
	maps.DeleteFunc(q.built, func(_ string, u usage) bool { return u.left(now) < time.Millisecond })
}

// use returns how many builds each namespace has running, and how long it has built
// lately if it has any that wait or run.
func (q *queue) use(now time.Time) (builds map[string]int, built map[string]time.Duration) {
	builds, built = map[string]int{}, map[string]time.Duration{}
	for namespace := range q.waiting {
		built[namespace] = q.built[namespace].left(now)
	}
	for t := range q.running {
		builds[t.namespace]++
		built[t.namespace] += now.Sub(t.begun)
	}
	return builds, built
}

// next starts builds while there are slots for them.
func (q *queue) next(now time.Time) {
	for q.free > 0 && len(q.waiting) > 0 {
		builds, built := q.use(now)
		startable := q.startable(builds, built)
		if len(startable) == 0 {
			return
		}
		t := slices.MinFunc(startable, func(a, b *queuedBuild) int {
			return cmp.Or(cmp.Compare(built[a.namespace], built[b.namespace]), cmp.Compare(builds[a.namespace], builds[b.namespace]), cmp.Compare(a.order, b.order))
		})
		q.remove(t)
		q.free--
		q.running[t] = true
		t.begun = now
		close(t.turn)
	}
}

// startable returns the oldest build of each namespace that may start now. See queue about
// the last slot.
func (q *queue) startable(builds map[string]int, built map[string]time.Duration) (startable []*queuedBuild) {
	last := q.free == 1 && q.slots > 1
	for namespace, queued := range q.waiting {
		if last && (builds[namespace] > 0 || built[namespace] > maxForLastSlot) {
			continue
		}
		if i := slices.IndexFunc(queued, func(t *queuedBuild) bool { return !last || !t.long }); i >= 0 {
			startable = append(startable, queued[i])
		}
	}
	return startable
}

// remove removes a build that waits. It ignores one that was removed before.
func (q *queue) remove(t *queuedBuild) {
	queued := q.waiting[t.namespace]
	i := slices.Index(queued, t)
	if i < 0 {
		return
	}
	q.sum.add(-1, -t.bytes)
	if q.waiting[t.namespace] = slices.Delete(queued, i, i+1); len(queued) == 1 {
		delete(q.waiting, t.namespace)
	}
}
