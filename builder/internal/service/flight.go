package service

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// A flight is work that several may wait for. It ends when nobody does any more.
type flight struct {
	compiled chan struct{} // closed when the source is known to compile, in
	took     time.Duration // after the start of the build
	done     chan struct{} // closed at the end

	// report is how a build has ended, after done. There is none when it was
	// called off.
	report json.RawMessage

	cancel  context.CancelFunc
	waiting int
}

// flights are what is going on, by the keys of results.
type flights struct {
	mu      sync.Mutex
	byKey   map[string]*flight
	working sync.WaitGroup
	ending  bool
}

// errEnding says that nothing new begins.
var errEnding = errors.New("this replica of the build service ends, another one goes on")

// isCompiled tells whether the source is known to compile.
func (f *flight) isCompiled() bool {
	select {
	case <-f.compiled:
		return true
	default:
		return false
	}
}

// has tells whether there is a flight to key.
func (f *flights) has(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.byKey[key] != nil
}

// join waits for the flight to key, and returns nil if there is none. Whoever has
// joined has to leave.
func (f *flights) join(key string) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	going := f.byKey[key]
	if going != nil {
		going.waiting++
	}
	return going
}

// start is join, and begins the flight when there is none: prepare, which must not
// take long, returns the work to do, or why there cannot be any.
func (f *flights) start(key string, prepare func() (work func(context.Context, *flight), err error)) (*flight, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if going := f.byKey[key]; going != nil {
		going.waiting++
		return going, nil
	}
	if f.ending {
		return nil, errEnding
	}
	work, err := prepare()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	begun := &flight{compiled: make(chan struct{}), done: make(chan struct{}), cancel: cancel, waiting: 1}
	if f.byKey == nil {
		f.byKey = map[string]*flight{}
	}
	f.byKey[key] = begun
	f.working.Go(func() {
		defer cancel()
		work(ctx, begun)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.remove(key, begun)
		close(begun.done)
	})
	return begun, nil
}

// leave says that somebody does not wait any more.
func (f *flights) leave(key string, going *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if going.waiting--; going.waiting == 0 {
		f.remove(key, going) // whoever comes now begins anew
		going.cancel()
	}
}

// remove must be called with the lock.
func (f *flights) remove(key string, going *flight) {
	if f.byKey[key] == going {
		delete(f.byKey, key)
	}
}

// end ends all flights for good, and returns when they have ended.
func (f *flights) end() {
	f.mu.Lock()
	f.ending = true
	for _, going := range f.byKey {
		going.cancel()
	}
	f.mu.Unlock()
	f.working.Wait()
}

// news wakes those who wait for something that nobody has begun.
type news struct {
	mu   sync.Mutex
	next chan struct{}
}

// wait returns a channel that is closed when anything has begun or was stored.
func (n *news) wait() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next == nil {
		n.next = make(chan struct{})
	}
	return n.next
}

func (n *news) tell() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		close(n.next)
		n.next = nil
	}
}
