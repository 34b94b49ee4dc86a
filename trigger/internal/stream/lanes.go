package stream

import "sync"

// Lanes run functions: those of the same key one after the other, and all together no more than
// a number of them at the same time.
type Lanes struct {
	slots chan struct{}

	mu      sync.Mutex
	waiting map[string][]func() // a key is there while one of its functions waits or runs
	running sync.WaitGroup
}

// NewLanes returns Lanes that run n functions at the same time.
func NewLanes(n int) *Lanes {
	return &Lanes{slots: make(chan struct{}, n), waiting: map[string][]func(){}}
}

// Go runs f after those of the same key that came before. It does not wait for that.
func (l *Lanes) Go(key string, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue, busy := l.waiting[key]
	l.waiting[key] = append(queue, f)
	if !busy {
		l.running.Go(func() { l.run(key) })
	}
}

// Wait returns when nothing runs any more.
func (l *Lanes) Wait() { l.running.Wait() }

// run runs the functions of a key until there is none.
func (l *Lanes) run(key string) {
	for f := l.next(key); f != nil; f = l.next(key) {
		l.slots <- struct{}{}
		f()
		<-l.slots
	}
}

func (l *Lanes) next(key string) func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := l.waiting[key]
	if len(queue) == 0 {
		delete(l.waiting, key)
		return nil
	}
	l.waiting[key] = queue[1:]
	return queue[0]
}
