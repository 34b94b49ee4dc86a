package wake

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"goless.io/operator/internal/activator/backend"
)

// maxGateWait is the longest time that a request waits for a free pod. After that, the least used
// pod gets it, and serves it with a higher load than the target, or rejects it.
const maxGateWait = 10 * time.Second

// avoidFailed is how long a pod that could not be reached receives no requests if others are ready:
// its node may have failed, which Kubernetes notices after 40 seconds.
const avoidFailed = 2 * time.Second

// errNoReadyPod is returned for requests that wait while the last ready pod goes away.
var errNoReadyPod = errors.New("no pod of the function is ready")

// A gate spreads requests over the pods of a function that scales by its requests in flight. While
// a function wakes, its pods become ready one after the other, and without a gate the first one
// would receive all requests that wait. Each pod gets a limited number of requests at the same
// time; other requests wait for a free or new pod, the oldest first.
type gate struct {
	users int // calls of Dial and connections; the lock of the Waker protects it

	mu       sync.Mutex
	limit    int                  // requests per pod
	ready    []string             // addresses of the ready pods
	early    map[string]bool      // pods that are ready according to their admin port
	failed   map[string]time.Time // when an address could not be reached
	used     map[string]int       // requests by pod
	waiting  []*waiter            // the oldest first
	updating bool                 // a goroutine calls update until no request waits
}

// waiter is a request that waits at a gate.
type waiter struct {
	done    chan struct{} // closed when address or err is set
	address string
	err     error
}

func newGate() *gate {
	return &gate{failed: map[string]time.Time{}, early: map[string]bool{}, used: map[string]int{}}
}

// enter adds a request to those that wait. ready is the address of a pod that is ready. If the
// request could not reach a pod before, failed is its address, and the request is the next one. enter
// returns whether the caller has to start the goroutine that calls update.
func (g *gate) enter(pods []backend.Pod, limit int, ready, failed string) (x *waiter, update bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limit, g.early[ready] = limit, true
	g.setPods(pods)
	x = &waiter{done: make(chan struct{})}
	if failed == "" {
		g.waiting = append(g.waiting, x)
	} else {
		g.failed[failed] = time.Now()
		g.waiting = slices.Insert(g.waiting, 0, x)
	}
	g.open()
	update = len(g.waiting) > 0 && !g.updating
	g.updating = g.updating || update
	return x, update
}

// admit returns the address of a pod for a request, and counts the request until release is called
// with the address.
func (g *gate) admit(ctx context.Context, x *waiter) (address string, err error) {
	timer := time.NewTimer(maxGateWait)
	defer timer.Stop()
	select {
	case <-x.done:
	case <-timer.C:
		g.end(x, nil)
	case <-ctx.Done():
		g.end(x, context.Cause(ctx))
	}
	<-x.done
	return x.address, x.err
}

// end ends the wait of a request with an error or, if that is nil, admits it to the least used pod,
// even if that is full. It does nothing if the wait has ended.
func (g *gate) end(x *waiter, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := slices.Index(g.waiting, x)
	if i < 0 {
		return
	}
	g.waiting = slices.Delete(g.waiting, i, i+1)
	address := g.leastUsed()
	if err == nil && address == "" {
		err = errNoReadyPod
	}
	g.finish(x, address, err)
}

// finish ends the wait of a request that was removed from those that wait.
func (g *gate) finish(x *waiter, address string, err error) {
	if x.err = err; err == nil {
		x.address = address
		g.used[address]++
	}
	close(x.done)
}

// open admits waiting requests to pods that are not full. g.mu must be held.
func (g *gate) open() {
	for len(g.waiting) > 0 {
		address := g.leastUsed()
		if address == "" || g.used[address] >= g.limit {
			return
		}
		x := g.waiting[0]
		g.waiting = g.waiting[1:]
		g.finish(x, address, nil)
	}
}

// leastUsed returns the ready pod with the fewest requests, or "" if no pod is ready. It avoids pods
// that could not be reached a short time ago.
func (g *gate) leastUsed() (least string) {
	candidates := slices.DeleteFunc(slices.Clone(g.ready), func(address string) bool { return time.Since(g.failed[address]) < avoidFailed })
	if len(candidates) == 0 {
		candidates = g.ready
	}
	if len(candidates) == 0 {
		return ""
	}
	first := rand.N(len(candidates))
	for _, address := range slices.Concat(candidates[first:], candidates[:first]) {
		if least == "" || g.used[address] < g.used[least] {
			least = address
		}
	}
	return least
}

// release ends a request that admit has counted.
func (g *gate) release(address string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.used[address]--; g.used[address] <= 0 {
		delete(g.used, address)
	}
	g.open()
}

// update sets the pods of the function. It returns the number of requests that the function has, or
// 0 if none of them waits. Then update is not called again until enter asks for it.
func (g *gate) update(pods []backend.Pod) (requests int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.setPods(pods)
	g.open()
	if len(g.ready) == 0 {
		for _, x := range g.waiting {
			g.finish(x, "", errNoReadyPod)
		}
		g.waiting = nil
	}
	if g.updating = len(g.waiting) > 0; !g.updating {
		return 0
	}
	requests = len(g.waiting)
	for _, n := range g.used {
		requests += n
	}
	return requests
}

// setPods sets the ready pods. g.mu must be held.
func (g *gate) setPods(pods []backend.Pod) {
	early := g.early
	g.ready, g.early = nil, map[string]bool{}
	maps.DeleteFunc(g.failed, func(_ string, at time.Time) bool { return time.Since(at) >= avoidFailed })
	for _, p := range pods {
		switch {
		case p.Terminating || p.Address == "" || p.Broken != "":
		case p.Ready:
			g.ready = append(g.ready, p.Address)
		case early[p.Address]:
			g.ready, g.early[p.Address] = append(g.ready, p.Address), true
		}
	}
}

// A gatedConn is a connection to a pod that a gate has admitted.
type gatedConn struct {
	*net.TCPConn
	leave func() // ends the request; may be called more than once
}

func (c gatedConn) Close() error {
	c.leave()
	return c.TCPConn.Close()
}
