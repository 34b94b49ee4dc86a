package stream

import "sync"

// maxBatch is about how many bytes the messages of one delivery have at most, where there are
// several.
const maxBatch = 1 << 20

// Lanes deliver messages of the type M: those of the same key one after the other, and of all keys
// together as many at the same time as a Deliverer may.
type Lanes[K comparable, M any] struct {
	slots   chan struct{}
	batch   int
	size    func(M) int
	deliver func(K, []M)

	mu      sync.Mutex
	waiting map[K][]M // a key is there while one of its messages waits or is delivered
	running sync.WaitGroup
}

// NewLanes returns Lanes for a Deliverer. size is about how many bytes a message has. deliver is
// called with a batch of messages, which is one where the Deliverer has no batches.
func NewLanes[K comparable, M any](d *Deliverer, size func(M) int, deliver func(K, []M)) *Lanes[K, M] {
	return &Lanes[K, M]{slots: make(chan struct{}, d.Concurrency), batch: max(d.Batch, 1), size: size, deliver: deliver, waiting: map[K][]M{}}
}

// Add makes messages be delivered after those of the same key that came before. It does not wait
// for that.
func (l *Lanes[K, M]) Add(key K, messages ...M) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, busy := l.waiting[key]
	l.waiting[key] = append(queue, messages...)
	if !busy {
		l.running.Go(func() { l.run(key) })
	}
}

// Drop forgets the messages of a key that wait, and returns them. Those that are in delivery stay.
func (l *Lanes[K, M]) Drop(key K) []M {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, busy := l.waiting[key]
	if busy {
		l.waiting[key] = nil
	}
	return queue
}

// Wait returns when nothing is delivered any more.
func (l *Lanes[K, M]) Wait() { l.running.Wait() }

// run delivers the messages of a key until there is none. What comes while it waits for its turn
// may be in the same batch.
func (l *Lanes[K, M]) run(key K) {
	for more := true; more; {
		l.slots <- struct{}{}
		var batch []M
		if batch, more = l.next(key); more {
			l.deliver(key, batch)
		}
		<-l.slots
	}
}

// next takes a batch of a key; more is false where there is no message.
func (l *Lanes[K, M]) next(key K) (batch []M, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.waiting[key]
	if len(queue) == 0 {
		delete(l.waiting, key)
		return nil, false
	}
	n, bytes := 1, l.size(queue[0])
	for ; n < min(l.batch, len(queue)) && bytes+l.size(queue[n]) <= maxBatch; n++ {
		bytes += l.size(queue[n])
	}
	l.waiting[key] = queue[n:]
	return queue[:n:n], true
}
