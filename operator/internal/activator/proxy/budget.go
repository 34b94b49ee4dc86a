package proxy

import (
	"container/list"
	"sync"
)

// A party is what the shares of a budget belong to: the address of a client together with the
// namespace of the function that it calls. All clients of an ingress have one address, and one client
// may call the functions of all namespaces: neither alone would keep them apart.
type party struct{ address, namespace string }

// A budget bounds the memory of what clients have open, in bytes, and how many requests are held. With
// too many held requests, the party that has the most of them loses the newest one. With too many bytes,
// the party with the most bytes loses its newest held request, or if it has none, what it has had for the
// longest time. A party with less than the others loses nothing.
type budget struct {
	bytes, held int64 // the most

	mu       sync.Mutex
	usedHeld int64
	used     int64
	shares   map[party]*share
}

// A share is what one party has of a budget, each list with the oldest first.
type share struct {
	bytes        int64
	held, others *list.List // of *charge
}

// A charge is what one connection or request takes of a budget.
type charge struct {
	budget *budget
	party  party
	bytes  int64
	drop   func() // is called if the charge must give way; it must not block

	in      *list.List // nil once it has ended
	element *list.Element
}

func newBudget(bytes, held int64) *budget {
	return &budget{bytes: bytes, held: held, shares: map[party]*share{}}
}

// hold charges a party for a request that is held, and add for anything else. The new charge itself
// may be one that is dropped.
func (b *budget) hold(p party, bytes int64, drop func()) *charge {
	return b.charge(p, bytes, drop, true)
}

func (b *budget) add(p party, bytes int64, drop func()) *charge {
	return b.charge(p, bytes, drop, false)
}

func (b *budget) charge(p party, bytes int64, drop func(), held bool) *charge {
	c := &charge{budget: b, party: p, drop: drop}
	b.update(func() {
		s := b.shares[p]
		if s == nil {
			s = &share{held: list.New(), others: list.New()}
			b.shares[p] = s
		}
		b.insert(c, s, held)
		b.grow(c, bytes)
	})
	return c
}

// grow charges for some bytes more.
func (c *charge) grow(bytes int64) {
	c.budget.update(func() {
		if c.in != nil {
			c.budget.grow(c, bytes)
		}
	})
}

// serve charges a request that was held for some bytes more. Now drop ends it.
func (c *charge) serve(bytes int64, drop func()) {
	c.budget.update(func() {
		if c.in == nil {
			return
		}
		c.drop = drop
		s := c.budget.shares[c.party]
		s.held.Remove(c.element)
		c.budget.usedHeld--
		c.budget.insert(c, s, false)
		c.budget.grow(c, bytes)
	})
}

// renew makes the charge the newest of its party.
func (c *charge) renew() {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.in != nil {
		c.in.MoveToBack(c.element)
	}
}

// end takes the charge back.
func (c *charge) end() {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.budget.remove(c)
}

// update changes the budget, and drops what no longer fits.
func (b *budget) update(change func()) {
	b.mu.Lock()
	change()
	var dropped []*charge
	for len(b.shares) > 0 && (b.used > b.bytes || b.usedHeld > b.held) {
		c := b.surplus()
		b.remove(c)
		dropped = append(dropped, c)
	}
	b.mu.Unlock()
	for _, c := range dropped {
		c.drop()
	}
}

// The caller of these must hold the lock.

func (b *budget) insert(c *charge, s *share, held bool) {
	c.in = s.others
	if held {
		c.in = s.held
		b.usedHeld++
	}
	c.element = c.in.PushBack(c)
}

func (b *budget) grow(c *charge, bytes int64) {
	c.bytes += bytes
	b.shares[c.party].bytes += bytes
	b.used += bytes
}

func (b *budget) remove(c *charge) {
	if c.in == nil {
		return
	}
	s := b.shares[c.party]
	c.in.Remove(c.element)
	if c.in == s.held {
		b.usedHeld--
	}
	b.grow(c, -c.bytes)
	c.in = nil
	if s.held.Len()+s.others.Len() == 0 {
		delete(b.shares, c.party)
	}
}

// surplus returns what to drop first.
func (b *budget) surplus() *charge {
	of := func(s *share) int64 { return s.bytes }
	if b.usedHeld > b.held {
		of = func(s *share) int64 { return int64(s.held.Len()) }
	}
	var most *share
	for _, s := range b.shares {
		if most == nil || of(s) > of(most) {
			most = s
		}
	}
	if newest := most.held.Back(); newest != nil {
		return newest.Value.(*charge) //nolint:forcetypeassert // nothing else is stored
	}
	return most.others.Front().Value.(*charge) //nolint:forcetypeassert // nothing else is stored
}
