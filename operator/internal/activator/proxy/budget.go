package proxy

import (
	"cmp"
	"container/list"
	"sync"
)

// A party is what the shares of a budget belong to: the address of a client together with the
// namespace of the function that it calls. All clients of an ingress have one address, and one client
// may call the functions of all namespaces: neither alone would keep them apart.
type party struct{ address, namespace string }

// A budget bounds the memory of what clients have open, in bytes, and how many requests are held. With
// too many held requests, the namespace that has the most of them loses the newest one, of the address that
// has the most in it. With too many bytes, the same is true of bytes: the party loses its newest held request,
// or if it has none, what has been idle for the longest time, or if nothing is idle, what it has had for
// the longest time. The namespace decides first, because a client may have many addresses.
type budget struct {
	bytes, held int64 // the most

	mu       sync.Mutex
	usedHeld int64
	used     int64
	shares   map[party]*share
}

// A share is what one party has of a budget, each list with the oldest first.
type share struct {
	bytes            int64
	held, idle, busy *list.List // of *charge
}

func newShare() *share { return &share{held: list.New(), idle: list.New(), busy: list.New()} }

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

// hold charges a party for a request that is held, and add for anything else, which is idle at first. The
// new charge itself may be one that is dropped.
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
			s = newShare()
			b.shares[p] = s
		}
		in := s.idle
		if held {
			in = s.held
		}
		b.insert(c, in)
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
		c.budget.move(c, c.budget.shares[c.party].busy)
		c.budget.grow(c, bytes)
	})
}

// setBusy makes the charge the newest of those of its party that are busy, or of those that are idle.
func (c *charge) setBusy(busy bool) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.in == nil {
		return
	}
	s := c.budget.shares[c.party]
	if busy {
		c.budget.move(c, s.busy)
	} else {
		c.budget.move(c, s.idle)
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

func (b *budget) insert(c *charge, in *list.List) {
	c.in, c.element = in, in.PushBack(c)
	if in == b.shares[c.party].held {
		b.usedHeld++
	}
}

func (b *budget) takeOut(c *charge) {
	c.in.Remove(c.element)
	if c.in == b.shares[c.party].held {
		b.usedHeld--
	}
	c.in = nil
}

func (b *budget) move(c *charge, to *list.List) {
	b.takeOut(c)
	b.insert(c, to)
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
	b.grow(c, -c.bytes)
	b.takeOut(c)
	if s := b.shares[c.party]; s.held.Len()+s.idle.Len()+s.busy.Len() == 0 {
		delete(b.shares, c.party)
	}
}

// surplus returns what to drop first.
func (b *budget) surplus() *charge {
	of := func(s *share) int64 { return s.bytes }
	if b.usedHeld > b.held {
		of = func(s *share) int64 { return int64(s.held.Len()) }
	}
	totals := map[string]int64{} // by namespace
	for p, s := range b.shares {
		totals[p.namespace] += of(s)
	}
	var most *share
	var its party
	for p, s := range b.shares {
		if most == nil || cmp.Or(cmp.Compare(totals[p.namespace], totals[its.namespace]), cmp.Compare(of(s), of(most))) > 0 {
			most, its = s, p
		}
	}
	first := cmp.Or(most.held.Back(), most.idle.Front(), most.busy.Front())
	return first.Value.(*charge) //nolint:forcetypeassert // nothing else is stored
}
