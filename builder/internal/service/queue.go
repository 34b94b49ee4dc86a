package service

import (
	"cmp"
	"errors"
	"slices"
	"sync"
)

const (
	// maxQueue is how many builds may wait, and maxTenant how many of one
	// namespace. Each holds a source, of 240 KiB at most.
	maxQueue  = 1024
	maxTenant = 256
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
	length  int

	// begun counts the builds, and last is what it was when a namespace had its
	// turn. It is forgotten when there is nothing to do.
	begun int
	last  map[string]int
}

// A ticket is a place in the queue.
type ticket struct {
	namespace string
	turn      chan struct{} // closed when it is the ticket's
}

func newQueue(places int) *queue {
	return &queue{free: places, running: map[string]int{}, waiting: map[string][]*ticket{}, last: map[string]int{}}
}

// enter joins the queue. Whoever has entered has to leave, at any time. The error
// is errFull.
func (q *queue) enter(namespace string) (*ticket, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.length >= maxQueue || len(q.waiting[namespace]) >= maxTenant {
		return nil, errFull
	}
	t := &ticket{namespace: namespace, turn: make(chan struct{})}
	if len(q.waiting[namespace]) == 0 {
		q.turns = append(q.turns, namespace)
	}
	q.waiting[namespace] = append(q.waiting[namespace], t)
	q.length++
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
	if q.length+len(q.running) == 0 {
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
	q.length--
	q.waiting[namespace] = slices.Delete(q.waiting[namespace], i, i+1)
	if len(q.waiting[namespace]) == 0 {
		delete(q.waiting, namespace)
		q.turns = slices.DeleteFunc(q.turns, func(other string) bool { return other == namespace })
	}
}
