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
	if deadline.IsZero() {
		c.read.Store(0)
		return c.clearRead()
	}
	at := max(int64(deadline.Sub(epoch)), 1)
	c.read.Store(at)
	if at-c.patrol.now.Load() > int64(far) {
		return c.clearRead()
	}
	c.readSet.Store(true)
	return c.Conn.SetReadDeadline(deadline)
}

// clearRead removes a deadline from the connection below.
func (c *Conn) clearRead() error {
	if !c.readSet.Swap(false) {
		return nil
	}
	return c.Conn.SetReadDeadline(time.Time{})
}

// Read is part of [net.Conn].
func (c *Conn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || c.passed() {
			return n, err
		}
		// The patrol came just when the deadline was moved.
		c.readSet.Store(false)
		if err := c.Conn.SetReadDeadline(time.Time{}); err != nil {
			return 0, err
		}
	}
}

// passed reports whether the deadline of reads has passed.
func (c *Conn) passed() bool {
	deadline := c.read.Load()
	return deadline != 0 && int64(time.Since(epoch)) >= deadline
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
		if c.passed() {
			c.readSet.Store(true)
			_ = c.Conn.SetReadDeadline(epoch) // long ago; the read says what is wrong
		}
	}
	if len(p.conns) > 0 {
		p.timer.Reset(round)
	}
}
