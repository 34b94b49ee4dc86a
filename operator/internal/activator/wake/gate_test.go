package wake

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"goless.io/operator/internal/activator/backend"
)

// gateTest is a gate with requests that enter it.
type gateTest struct {
	*gate
	t *testing.T

	mu       sync.Mutex
	admitted []string // addresses, in order
}

// enter sends n requests, one after the other. Each pod may have two requests at the same time.
func (g *gateTest) enter(ctx context.Context, n int, pods []backend.Pod) {
	g.enterAgain(ctx, n, pods, "")
}

// enterAgain does the same for requests that have failed to reach a pod.
func (g *gateTest) enterAgain(ctx context.Context, n int, pods []backend.Pod, failed string) {
	for range n {
		x, _ := g.gate.enter(pods, 2, pods[0].Address, failed)
		go func() {
			address, err := g.admit(ctx, x)
			if err != nil {
				address = "error"
			}
			g.mu.Lock()
			defer g.mu.Unlock()
			g.admitted = append(g.admitted, address)
		}()
		synctest.Wait()
	}
}

func (g *gateTest) expect(want ...string) {
	g.t.Helper()
	synctest.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.admitted, want) {
		g.t.Errorf("admitted %v, want %v", g.admitted, want)
	}
}

func pods(addresses ...string) (all []backend.Pod) {
	for _, address := range addresses {
		all = append(all, backend.Pod{Address: address, Ready: true})
	}
	return all
}

// Each pod receives at most the limit. Further requests wait, until one ends or another pod is
// ready.
func TestGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateTest{gate: newGate(), t: t}
		g.enter(t.Context(), 6, pods("a"))
		g.expect("a", "a")
		g.release("a")
		g.expect("a", "a", "a")
		if n := g.update(pods("a", "b")); n != 5 { // two at a, two at b, one waits
			t.Errorf("%d requests, want 5", n)
		}
		g.expect("a", "a", "a", "b", "b")
		g.release("b")
		g.expect("a", "a", "a", "b", "b", "b")
		if n := g.update(pods("a", "b")); n != 0 {
			t.Errorf("%d requests, although none waits", n)
		}
	})
}

// Requests do not go to a pod that is gone, nor to one that could not be reached a short time ago while
// there is another. A request that has failed is the next one.
func TestGateAvoids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateTest{gate: newGate(), t: t}
		g.enter(t.Context(), 1, pods("gone"))
		g.enter(t.Context(), 2, pods("a"))
		g.expect("gone", "a", "a")
		g.enter(t.Context(), 1, pods("a"))
		g.enterAgain(t.Context(), 1, pods("a", "dead"), "dead")
		g.expect("gone", "a", "a")
		g.release("a")
		g.expect("gone", "a", "a", "a")
		if len(g.waiting) != 1 || g.used["dead"] != 0 {
			t.Errorf("%d wait, and %d are at the pod that could not be reached", len(g.waiting), g.used["dead"])
		}
		time.Sleep(avoidFailed)
		g.update(pods("a", "dead"))
		g.expect("gone", "a", "a", "a", "dead")
		g.enterAgain(t.Context(), 1, pods("dead"), "dead")
		g.expect("gone", "a", "a", "a", "dead", "dead")
	})
}

// A pod that is ready only according to its admin port receives requests while it exists and has not
// failed.
func TestGateOfEarlyPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateTest{gate: newGate(), t: t}
		g.enter(t.Context(), 1, []backend.Pod{{Address: "a"}, {Address: "b"}})
		g.enter(t.Context(), 1, []backend.Pod{{Address: "a"}, {Address: "b"}})
		g.expect("a", "a")
		g.enter(t.Context(), 1, []backend.Pod{{Address: "a"}})
		g.update([]backend.Pod{{Address: "a", Broken: "its container keeps restarting"}})
		g.expect("a", "a", "error")
		g.update([]backend.Pod{{Address: "a"}})
		if g.ready != nil {
			t.Errorf("ready pods: %v", g.ready)
		}
	})
}

// A request waits for a free pod for ten seconds at most.
func TestGateOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateTest{gate: newGate(), t: t}
		g.enter(t.Context(), 3, pods("a"))
		time.Sleep(maxGateWait - time.Second)
		g.expect("a", "a")
		time.Sleep(2 * time.Second)
		g.expect("a", "a", "a")
	})
}

// A client that disconnects leaves the queue, and its place is not counted.
func TestGateCanceled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gateTest{gate: newGate(), t: t}
		g.enter(t.Context(), 2, pods("a"))
		ctx, cancel := context.WithCancel(t.Context())
		g.enter(ctx, 1, pods("a"))
		g.enter(t.Context(), 1, pods("a"))
		cancel()
		g.expect("a", "a", "error")
		for range 3 {
			g.release("a")
		}
		g.expect("a", "a", "error", "a")
		if len(g.used) != 0 || len(g.waiting) != 0 {
			t.Errorf("used %v, %d waiting", g.used, len(g.waiting))
		}
	})
}
