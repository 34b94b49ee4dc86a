package proxy

import (
	"cmp"
	"container/list"
	"sync"
)

// A tenant is the unit of fair sharing of a budget: a client address together with the namespace of
// the function that it calls. Neither alone is sufficient: all clients of an ingress share one
// address, and one client may call functions in all namespaces.
type tenant struct{ address, namespace string }

// A budget limits the memory of open connections and requests, in bytes, and the number of held
// requests. When a limit is exceeded, it evicts from the namespace that uses the most of that
// resource, and within it from the address that uses the most. The namespace comes first because a
// client may have many addresses.
//
//   - Too many held requests: it evicts the newest held request.
//   - Too many bytes: it evicts the newest held request, else the charge that has been idle for
//     the longest time, else the oldest busy charge. A connection is idle after a request, and busy
//     before its first one: a new connection replaces the oldest one, whatever that is doing.
type budget struct {
	bytes, held int64 // limits

	mu       sync.Mutex
	usedHeld int64
	used     int64
	shares   map[tenant]*share
}

// A share contains the charges of one tenant. Each list starts with the oldest.
type share struct {
	bytes            int64
	held, idle, busy *list.List // of *charge
}

func newShare() *share { return &share{held: list.New(), idle: list.New(), busy: list.New()} }

// A charge is the cost of one connection or request in a budget.
type charge struct {
	budget *budget
	tenant tenant
	bytes  int64
	evict  func() // called when the charge is evicted; must not block

	in      *list.List // nil after end or eviction
	element *list.Element
}

func newBudget(bytes, held int64) *budget {
	return &budget{bytes: bytes, held: held, shares: map[tenant]*share{}}
}

// hold charges a tenant for a held request; add charges it for anything else, which is busy at
// first. The new charge itself may be evicted.
func (b *budget) hold(p tenant, bytes int64, evict func()) *charge {
	return b.charge(p, bytes, evict, true)
}

func (b *budget) add(p tenant, bytes int64, evict func()) *charge {
	return b.charge(p, bytes, evict, false)
}

func (b *budget) charge(p tenant, bytes int64, evict func(), held bool) *charge {
	c := &charge{budget: b, tenant: p, evict: evict}
	b.update(func() {
		s := b.shares[p]
		if s == nil {
			s = newShare()
			b.shares[p] = s
		}
		in := s.busy
		if held {
			in = s.held
		}
		b.insert(c, in)
		b.grow(c, bytes)
	})
	return c
}

// grow adds to the cost of a charge.
func (c *charge) grow(bytes int64) {
	c.budget.update(func() {
		if c.in != nil {
			c.budget.grow(c, bytes)
		}
	})
}

// serve marks a held request as served, adds to its cost, and replaces its evict function.
func (c *charge) serve(bytes int64, evict func()) {
	c.budget.update(func() {
		if c.in == nil {
			return
		}
		c.evict = evict
		c.budget.move(c, c.budget.shares[c.tenant].busy)
		c.budget.grow(c, bytes)
	})
}

// setBusy moves the charge to the end of its tenant's busy or idle list.
func (c *charge) setBusy(busy bool) {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	if c.in == nil {
		return
	}
	s := c.budget.shares[c.tenant]
	if busy {
		c.budget.move(c, s.busy)
	} else {
		c.budget.move(c, s.idle)
	}
}

// end releases the charge.
func (c *charge) end() {
	c.budget.mu.Lock()
	defer c.budget.mu.Unlock()
	c.budget.remove(c)
}

// update changes the budget and evicts charges until its limits are met.
func (b *budget) update(change func()) {
	b.mu.Lock()
	change()
	var evicted []*charge
	for len(b.shares) > 0 && (b.used > b.bytes || b.usedHeld > b.held) {
		c := b.victim()
		b.remove(c)
		evicted = append(evicted, c)
	}
	b.mu.Unlock()
	for _, c := range evicted {
		c.evict()
	}
}

// The following methods require the lock.

func (b *budget) insert(c *charge, in *list.List) {
	c.in, c.element = in, in.PushBack(c)
	if in == b.shares[c.tenant].held {
		b.usedHeld++
	}
}

func (b *budget) detach(c *charge) {
	c.in.Remove(c.element)
	if c.in == b.shares[c.tenant].held {
		b.usedHeld--
	}
	c.in = nil
}

func (b *budget) move(c *charge, to *list.List) {
	b.detach(c)
	b.insert(c, to)
}

func (b *budget) grow(c *charge, bytes int64) {
	c.bytes += bytes
	b.shares[c.tenant].bytes += bytes
	b.used += bytes
}

func (b *budget) remove(c *charge) {
	if c.in == nil {
		return
	}
	b.grow(c, -c.bytes)
	b.detach(c)
	if s := b.shares[c.tenant]; s.held.Len()+s.idle.Len()+s.busy.Len() == 0 {
		delete(b.shares, c.tenant)
	}
}

// victim returns the charge to evict next.
func (b *budget) victim() *charge {
	of := func(s *share) int64 { return s.bytes }
	if b.usedHeld > b.held {
		of = func(s *share) int64 { return int64(s.held.Len()) }
	}
	totals := map[string]int64{} // by namespace
	for p, s := range b.shares {
		totals[p.namespace] += of(s)
	}
	var most *share
	var its tenant
	for p, s := range b.shares {
		if most == nil || cmp.Or(cmp.Compare(totals[p.namespace], totals[its.namespace]), cmp.Compare(of(s), of(most))) > 0 {
			most, its = s, p
		}
	}
	first := cmp.Or(most.held.Back(), most.idle.Front(), most.busy.Front())
	return first.Value.(*charge) //nolint:forcetypeassert // the lists contain only charges
}
