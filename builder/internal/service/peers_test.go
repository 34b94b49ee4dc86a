package service

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/remote"
)

// A neighborhood is the replicas that know of each other.
type neighborhood struct {
	mu        sync.Mutex
	addresses []string
}

// newReplica starts one that finds the others, as long as they are there.
func (n *neighborhood) newReplica(t *testing.T) *replica {
	t.Helper()
	var own string
	c := Config{Peers: func(context.Context) ([]string, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(n.addresses), func(address string) bool { return address == own }), nil
	}}
	n.mu.Lock() // until there is an own address
	defer n.mu.Unlock()
	r := newReplica(t, c)
	own = strings.TrimPrefix(r.url, "https://")
	n.addresses = append(n.addresses, own)
	return r
}

// TestPeers fetches from another replica than the one that builds: before, while
// and after it does.
func TestPeers(t *testing.T) {
	var n neighborhood
	a, b, c := n.newReplica(t), n.newReplica(t), n.newReplica(t)
	o := remote.Order{Namespace: "team-a", Source: source(t, "")}
	var early sync.WaitGroup
	early.Go(func() { b.binary(t, b.key(o)) })
	await(t, "b is asked", func() bool { return b.fetches.has(b.key(o)) })
	key, _ := a.build(t, o)
	early.Wait()
	c.binary(t, key)
	a.sharing.Wait()
	a.end()
	b.binary(t, key)
	if _, report := b.build(t, o); !strings.HasPrefix(report.Message, "built in ") {
		t.Errorf("the report: %+v, want the one of the other replica", report)
	}
	if made := append(b.log.builds(t), c.log.builds(t)...); len(a.log.builds(t)) != 1 || len(made) > 0 {
		t.Errorf("builds: %q, and elsewhere %q, want one", a.log.builds(t), made)
	}
}

// TestPeerHasBuilt orders what another replica has, from one that could not build
// it now.
func TestPeerHasBuilt(t *testing.T) {
	var n neighborhood
	a := n.newReplica(t)
	o := remote.Order{Namespace: "team-a", Source: source(t, "")}
	_, before := a.build(t, o)
	a.sharing.Wait()
	b := n.newReplica(t)
	for range b.config.Parallel {
		for _, namespace := range []string{"team-a", "team-b", "team-c"} {
			if _, err := b.queue.enter(namespace, 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	key, after := b.build(t, o)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the report: -want +got\n%s", diff)
	}
	a.end()
	b.binary(t, key)
	if made := b.log.builds(t); len(made) > 0 {
		t.Errorf("builds: %q, want none", made)
	}
}

// TestPeerDies ends a replica in a build; the order goes to another one, and a pod
// that waits there does not notice.
func TestPeerDies(t *testing.T) {
	var n neighborhood
	a, b := n.newReplica(t), n.newReplica(t)
	dying := remote.Order{Namespace: "team-a", Source: source(t, "")}
	key := a.key(dying)
	var pod sync.WaitGroup
	pod.Go(func() { b.binary(t, key) })
	await(t, "b is asked", func() bool { return b.fetches.has(key) })

	// It builds this for as long as it lives, so the order above waits.
	for range 3 {
		if _, err := a.queue.enter("team-b", 1); err != nil {
			t.Fatal(err)
		}
	}
	for range a.config.Parallel {
		if _, err := a.queue.enter("team-a", 1); err != nil {
			t.Fatal(err)
		}
	}
	accepted := make(chan struct{})
	var operator sync.WaitGroup
	operator.Go(func() {
		if _, err := a.client.Build(t.Context(), dying, func(remote.Event) { close(accepted) }); err == nil {
			t.Error("a replica that has ended has built")
		}
	})
	<-accepted
	a.end()
	operator.Wait()
	b.build(t, dying)
	pod.Wait()
}

// TestPeersNeverPassOn asks as a replica does, of which the answer must not depend
// on others.
func TestPeersNeverPassOn(t *testing.T) {
	asked := errors.New("other replicas were looked for")
	r := newReplica(t, Config{Peers: func(context.Context) ([]string, error) {
		t.Error(asked)
		return nil, asked
	}})
	key := strings.Repeat("0", 64)
	address := strings.TrimPrefix(r.url, "https://")
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		if err := r.Service.fetch(ctx, address, key, time.Minute); err == nil {
			t.Error("it has what nobody has")
		}
	})
	await(t, "it is asked", func() bool {
		r.news.mu.Lock()
		defer r.news.mu.Unlock()
		return r.news.next != nil
	})
	cancel()
	asking.Wait()
}

// TestPeerLies is about a replica with the right seed and the wrong bytes.
func TestPeerLies(t *testing.T) {
	var n neighborhood
	a := n.newReplica(t)
	o := remote.Order{Namespace: "team-a", Source: source(t, "")}
	key, _ := a.build(t, o)
	other, _ := a.build(t, remote.Order{Namespace: "team-b", Source: source(t, "")})
	a.sharing.Wait()
	b := n.newReplica(t)
	a.store.mu.Lock()
	a.store.stored[key].Signature = a.store.stored[other].Signature
	a.store.mu.Unlock()
	if err := b.Service.fetch(t.Context(), strings.TrimPrefix(a.url, "https://"), key, 0); !errors.Is(err, remote.ErrSignature) {
		t.Errorf("fetch: %v, want ErrSignature", err)
	}
	if _, ok := b.store.find(key); ok {
		t.Error("it was stored")
	}
}

func TestLookup(t *testing.T) {
	if _, err := Lookup("no port"); err == nil {
		t.Error("Lookup accepts an address without a port")
	}
	lookup, err := Lookup("localhost:8443")
	if err != nil {
		t.Fatal(err)
	}
	if found, err := lookup(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("Lookup finds %q, %v, want no replica but this one", found, err)
	}
	lookup, err = Lookup(net.JoinHostPort("192.0.2.1", "8443"))
	if err != nil {
		t.Fatal(err)
	}
	if found, err := lookup(t.Context()); err != nil || !slices.Equal(found, []string{"192.0.2.1:8443"}) {
		t.Errorf("Lookup finds %q, %v", found, err)
	}
}
