package wire

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// net/http sets the deadline of reads up to five times a request, each time at
// the cost of a timer. Here it is only written down if it is far away, and a
// patrol looks every now and then at which connections have passed theirs.
const (
	// far is from when on a deadline may be missed by a round or two.
	far   = 4 * time.Second
	round = time.Second / 2
)

// epoch is what deadlines are written down against.
var epoch = time.Now()

// SetReadDeadline is part of [net.Conn].
func (c *Conn) SetReadDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.given {
		return errGiven
	}
	c.read = 0
	if !deadline.IsZero() {
		c.read = max(int64(deadline.Sub(epoch)), 1)
	}
	return c.applyRead()
}

// applyRead brings the deadline of reads to the connection below if it is near,
// and sees to it that there is none if not. It is called with the lock.
func (c *Conn) applyRead() error {
	switch {
	case c.read != 0 && c.read-c.patrol.now.Load() <= int64(far):
		c.readSet = true
		return c.Conn.SetReadDeadline(epoch.Add(time.Duration(c.read)))
	case c.readSet:
		c.readSet = false
		return c.Conn.SetReadDeadline(time.Time{})
	}
	return nil
}

// Read is part of [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !c.again() {
			return n, err
		}
	}
}

// again reports whether a read that was interrupted by a deadline is to be tried
// once more: the deadline was moved just when it passed.
func (c *Conn) again() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.given && !c.passed() && c.applyRead() == nil
}

// interrupt ends the read of a connection whose deadline has passed.
func (c *Conn) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.readSet && c.passed() {
		_ = c.applyRead() // the read says what is wrong
	}
}

// passed reports whether the deadline of reads has passed. It is called with the
// lock.
func (c *Conn) passed() bool {
	return c.read != 0 && int64(time.Since(epoch)) >= c.read
}

// A patrol ends the reads of connections whose deadline has passed. It sleeps
// while there is no connection.
type patrol struct {
	// now is the time of the last round, since epoch. To look at the clock itself
	// takes longer than all the rest.
	now atomic.Int64

	mu    sync.Mutex
	conns map[*Conn]struct{}
	timer *time.Timer
}

func (p *patrol) add(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.conns == nil:
		p.conns = make(map[*Conn]struct{})
		p.timer = time.AfterFunc(round, p.walk)
		p.now.Store(int64(time.Since(epoch)))
	case len(p.conns) == 0:
		p.timer.Reset(round)
		p.now.Store(int64(time.Since(epoch)))
	}
	p.conns[c] = struct{}{}
}

func (p *patrol) remove(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

func (p *patrol) walk() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.Store(int64(time.Since(epoch)))
	for c := range p.conns {
		c.interrupt()
	}
	if len(p.conns) > 0 {
		p.timer.Reset(round)
	}
}
