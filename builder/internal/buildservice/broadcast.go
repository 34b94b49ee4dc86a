package buildservice

import "sync"

// A broadcast notifies all waiting goroutines of a change. The zero value is ready to use.
type broadcast struct {
	mu   sync.Mutex
	next chan struct{} // nil while no goroutine waits
}

// wait returns a channel that the next call of notify closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

// notify wakes all goroutines that wait now.
func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}
