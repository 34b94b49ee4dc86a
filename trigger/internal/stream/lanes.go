package stream

import "sync"

// maxBatch is the approximate maximum size of a batch of several messages, in bytes.
const maxBatch = 1 << 20

// Lanes delivers messages of type M in order for each key, and concurrently for different keys. The
// Concurrency of a Deliverer limits the concurrent deliveries of all keys.
type Lanes[K comparable, M any] struct {
	slots   chan struct{}
	batch   int
	size    func(M) int
	deliver func(K, []M)

	mu      sync.Mutex
	waiting map[K][]M // contains a key while one of its messages waits or is in delivery
	running sync.WaitGroup
}

// NewLanes returns Lanes for a Deliverer. size returns the approximate size of a message in bytes.
// deliver is called with a batch of messages, which is a single message if the Deliverer has no
// Batch.
func NewLanes[K comparable, M any](d *Deliverer, size func(M) int, deliver func(K, []M)) *Lanes[K, M] {
	return &Lanes[K, M]{slots: make(chan struct{}, d.Concurrency), batch: max(d.Batch, 1), size: size, deliver: deliver, waiting: map[K][]M{}}
}

// Add queues messages behind those of the same key. It does not wait for their delivery.
func (l *Lanes[K, M]) Add(key K, messages ...M) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, busy := l.waiting[key]
	l.waiting[key] = append(queue, messages...)
	if !busy {
		l.running.Go(func() { l.run(key) })
	}
}

// Drop removes the waiting messages of a key and returns them. Messages in delivery are not
// affected.
func (l *Lanes[K, M]) Drop(key K) []M {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, busy := l.waiting[key]
	if busy {
		l.waiting[key] = nil
	}
	return queue
}

// Wait waits until no messages are in delivery.
func (l *Lanes[K, M]) Wait() { l.running.Wait() }

// run delivers the messages of a key until there are none. Messages that are added while it waits
// for a slot can become part of the same batch.
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

// next removes a batch from the queue of a key. more is false if the queue is empty.
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
