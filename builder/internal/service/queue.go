package service

import (
	"cmp"
	"errors"
	"slices"
	"sync"
)

// What may wait: so many builds, and so many bytes of sources, because they wait
// in memory. One namespace may have a quarter of it.
const (
	maxQueue = 1024
	maxBytes = 64 << 20
)

// errFull says that there are too many builds already.
var errFull = errors.New("too many builds are waiting, ask again later")

// A queue decides which build is next. Namespaces take turns, so that one with a
// hundred builds delays another by one of them at most. One of the places is only
// for namespaces that have none: builds that take all of their time fill the others.
type queue struct {
	mu      sync.Mutex
	free    int
	running map[string]int       // by namespace
	waiting map[string][]*ticket // by namespace, first come first
	turns   []string             // the namespaces that wait
	sum     load

	// begun counts the builds, and last is what it was when a namespace had its
	// turn. It is forgotten when there is nothing to do.
	begun int
	last  map[string]int
}

// A load is so many builds with so many bytes of sources.
type load struct{ builds, bytes int }

func (l *load) add(builds, bytes int) { l.builds, l.bytes = l.builds+builds, l.bytes+bytes }

// full tells whether so many more bytes are too many for a part of the queue.
func (l load) full(bytes, part int) bool {
	return l.builds >= maxQueue/part || l.bytes+bytes > maxBytes/part
}

// A ticket is a place in the queue.
type ticket struct {
	namespace string
	bytes     int           // of the source
	turn      chan struct{} // closed when it is the ticket's
}

func newQueue(places int) *queue {
	return &queue{free: places, running: map[string]int{}, waiting: map[string][]*ticket{}, last: map[string]int{}}
}

// enter joins the queue with a source of so many bytes. Whoever has entered has to
// leave, at any time. The error is errFull.
func (q *queue) enter(namespace string, bytes int) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var own load
	for _, t := range q.waiting[namespace] {
		own.add(1, t.bytes)
	}
	if q.sum.full(bytes, 1) || own.full(bytes, 4) {
		return nil, errFull
	}
	t := &ticket{namespace: namespace, bytes: bytes, turn: make(chan struct{})}
	if len(q.waiting[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], t)
	q.sum.add(1, bytes)
	q.next()
	return t, nil
}

// leave gives up the place in the queue, or the one after it.
func (q *queue) leave(t *ticket) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting[t.namespace], t); i >= 0 {
		q.remove(t.namespace, i)
	} else {
		q.free++
		if q.running[t.namespace]--; q.running[t.namespace] == 0 {
			delete(q.running, t.namespace)
		}
	}
	q.next()
	if q.sum.builds+len(q.running) == 0 {
		clear(q.last)
	}
}

// next lets begin what may: of the namespaces that wait, the one whose turn was
// longest ago.
func (q *queue) next() {
	for q.free > 0 {
		var may []string
		for _, namespace := range q.turns {
			if q.free > 1 || q.running[namespace] == 0 {
				may = append(may, namespace)
			}
		}
		if len(may) == 0 {
			return
		}
		namespace := slices.MinFunc(may, func(a, b string) int { return cmp.Compare(q.last[a], q.last[b]) })
		t := q.waiting[namespace][0]
		q.remove(namespace, 0)
		q.free--
		q.running[namespace]++
		q.begun++
		q.last[namespace] = q.begun
		close(t.turn)
	}
}

// remove takes a ticket out of the queue.
func (q *queue) remove(namespace string, i int) {
	q.sum.add(-1, -q.waiting[namespace][i].bytes)
	q.waiting[namespace] = slices.Delete(q.waiting[namespace], i, i+1)
	if len(q.waiting[namespace]) == 0 {
		delete(q.waiting, namespace)
		q.turns = slices.DeleteFunc(q.turns, func(other string) bool { return other == namespace })
	}
}
