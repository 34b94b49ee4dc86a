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

// maxQueue limits the number of queued builds, and maxBytes the total size of their sources, which
// are kept in memory. A namespace may use a quarter of each. When the queue is full, the newest
// build of the namespace with the largest load is dropped.
const (
	maxQueue = 1024
	maxBytes = 64 << 20
)

const (
	// halfLife is the half-life of the build time that a namespace has used.
	halfLife = 10 * time.Minute

	// maxForLastSlot is the recent build time up to which a namespace may use the last slot.
	maxForLastSlot = 30 * time.Second
)

// errFull means that no more builds can be queued.
var errFull = errors.New("too many builds are queued; retry later")

// A queue selects the next build: one of the namespace that has used the least build time recently.
// Used time decays with halfLife.
//
// A running build is never preempted. So that long builds cannot occupy all slots, the last free
// slot is reserved for builds with at most the default timeout, of namespaces that have no running
// build and have used at most maxForLastSlot recently. A namespace that builds rarely thus waits
// for at most one such build, whatever other namespaces do.
type queue struct {
	mu      sync.Mutex
	slots   int
	free    int
	running map[*queuedBuild]bool
	waiting map[string][]*queuedBuild // by namespace, oldest first
	sum     load
	entered int
	built   map[string]usage // by namespace, without running builds
}

// A load is a number of builds and the total size of their sources in bytes.
type load struct{ builds, bytes int }

func (l *load) add(builds, bytes int) { l.builds, l.bytes = l.builds+builds, l.bytes+bytes }

// exceeds reports whether the load exceeds a fraction of the queue: 1 means all of it, 4 a quarter.
func (l load) exceeds(part int) bool { return l.builds > maxQueue/part || l.bytes > maxBytes/part }

// usage is the build time that a namespace had used at a point in time.
type usage struct {
	built time.Duration
	at    time.Time
}

// left returns the build time that still counts at now.
func (u usage) left(now time.Time) time.Duration {
	return time.Duration(float64(u.built) * math.Exp2(-float64(now.Sub(u.at))/float64(halfLife)))
}

// A queuedBuild is a queued or running build.
type queuedBuild struct {
	namespace string
	bytes     int  // size of the source
	long      bool // may take longer than the default timeout
	order     int
	begun     time.Time     // when the build started
	started   chan struct{} // closed when the build starts
	dropped   chan struct{} // closed when the build is dropped in favor of another namespace's
}

func newQueue(slots int) *queue {
	return &queue{slots: slots, free: slots, running: map[*queuedBuild]bool{}, waiting: map[string][]*queuedBuild{}, built: map[string]usage{}}
}

// enter adds a build whose source has the given size. long means that it may take longer than the
// default timeout. The caller must call leave, even if the build did not start or was dropped. The
// error is errFull; a namespace with no queued build never gets it.
func (q *queue) enter(namespace string, bytes int, long bool) (*queuedBuild, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	own := q.load(namespace)
	own.add(1, bytes)
	if own.exceeds(4) {
		return nil, errFull
	}
	q.entered++
	t := &queuedBuild{namespace: namespace, bytes: bytes, long: long, order: q.entered, started: make(chan struct{}), dropped: make(chan struct{})}
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

// load returns the queued load of a namespace.
func (q *queue) load(namespace string) (sum load) {
	for _, t := range q.waiting[namespace] {
		sum.add(1, t.bytes)
	}
	return sum
}

// surplus returns the build to drop after added made the queue too full: the newest build of the
// namespace with the largest load. It does not return added if that is the only queued build of its
// namespace, so that a namespace with few builds is not locked out.
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

// leave removes a queued build or ends a running one. It ignores a dropped one.
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

// use returns the number of running builds of each namespace, and the recently used build time of
// each namespace with queued or running builds.
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

// next starts builds while slots are free.
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
		close(t.started)
	}
}

// startable returns the oldest build of each namespace that may start now. See queue about the last
// slot.
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

// remove removes a queued build. It ignores builds that are not queued.
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
