package buildservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"goless.io/builder"
	"goless.io/builder/buildapi"
	"goless.io/builder/buildapi/buildapitest"
)

// A cluster is a group of replicas that know each other's addresses.
type cluster struct {
	mu        sync.Mutex
	addresses []string
}

// newReplica starts a replica that finds all others of the cluster.
func (c *cluster) newReplica(t *testing.T) *replica {
	t.Helper()
	var own string
	config := Config{Replicas: func(context.Context) (string, []string, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !slices.Contains(c.addresses, own) {
			return "", slices.Clone(c.addresses), nil
		}
		return own, slices.DeleteFunc(slices.Clone(c.addresses), func(address string) bool { return address == own }), nil
	}}
	c.mu.Lock() // until the own address is known
	defer c.mu.Unlock()
	r := newReplica(t, config)
	r.accept = 2 * time.Minute // so that an order accepted late is not built twice
	own = r.address()
	c.addresses = append(c.addresses, own)
	return r
}

// newReplicas starts n replicas. It returns them in their order of preference for the order that it
// returns.
func (c *cluster) newReplicas(t *testing.T, n int) ([]*replica, buildapi.Order) {
	t.Helper()
	replicas := make([]*replica, n)
	for i := range replicas {
		replicas[i] = c.newReplica(t)
	}
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	key := replicas[0].key(o)
	slices.SortFunc(replicas, func(a, b *replica) int { return strings.Compare(weight(key, b.address()), weight(key, a.address())) })
	return replicas, o
}

func (r *replica) address() string { return strings.TrimPrefix(r.url, "https://") }

// asked waits until a client waits for a binary of the replica.
func (r *replica) asked(t *testing.T) {
	t.Helper()
	await(t, "somebody waits for "+r.url, func() bool {
		r.changed.mu.Lock()
		defer r.changed.mu.Unlock()
		return r.changed.next != nil
	})
}

// building checks that only the replica with index want has built.
func building(t *testing.T, replicas []*replica, want int) {
	t.Helper()
	for i, r := range replicas {
		made := r.log.builds(t)
		if i != want && len(made) > 0 || i == want && !slices.Equal(made, []string{string(builder.Built)}) {
			t.Errorf("builds of replica %d: %q, want one by replica %d alone", i, made, want)
		}
	}
}

// TestReplicasBuildOnce sends the same order to all replicas at the same time. Then all of them
// have the binary.
func TestReplicasBuildOnce(t *testing.T) {
	var c cluster
	replicas, o := c.newReplicas(t, 3)
	var asking sync.WaitGroup
	for i := range 12 {
		asking.Go(func() {
			event, err := replicas[i%3].client.Build(t.Context(), o, nil)
			if err != nil || !strings.Contains(string(event.Report), `"Built"`) {
				t.Errorf("Build: %s, %v", event.Report, err)
			}
		})
	}
	asking.Wait()
	for _, r := range replicas {
		key, _ := r.build(t, o)
		r.binary(t, key)
	}
	building(t, replicas, 0)
}

// TestReplicasShareTheWork checks that each replica builds some of many keys.
func TestReplicasShareTheWork(t *testing.T) {
	var addresses []string
	for i := range 5 {
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d:8443", i))
	}
	builds, moved := map[string]int{}, 0
	best := func(key string, addresses []string) string {
		return slices.MaxFunc(addresses, func(a, b string) int { return strings.Compare(weight(key, a), weight(key, b)) })
	}
	for i := range 1000 {
		key := fmt.Sprint(i)
		builds[best(key, addresses)]++
		if was, is := best(key, addresses), best(key, addresses[1:]); was != is && was != addresses[0] {
			moved++
		}
	}
	for _, address := range addresses {
		if n := builds[address]; n < 100 || n > 300 {
			t.Errorf("%s builds %d of 1000 keys, want about 200", address, n)
		}
	}
	if moved > 0 {
		t.Errorf("%d keys of other replicas have moved when one was lost", moved)
	}
}

// TestReplicasPassEventsOn orders from a replica that forwards the order to another one, which is
// busy at first.
func TestReplicasPassEventsOn(t *testing.T) {
	var c cluster
	replicas, o := c.newReplicas(t, 2)
	slots := hold(t, replicas[0].queue, replicas[0].config.Parallel)
	var told []buildapi.Event
	_, err := replicas[1].client.Build(t.Context(), o, func(e buildapi.Event) {
		told = append(told, e)
		if e.Waiting {
			for _, slot := range slots {
				replicas[0].queue.leave(slot)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(told) != 4 || !told[1].Waiting || !told[2].Begun {
		t.Errorf("events: %+v, want those of a queued build", told)
	}
	building(t, replicas, 0)
}

// TestCompiling requests a binary while its source is compiled, from the replica that compiles it and
// from the other one. Pods that receive 404 exit after 45 seconds, and others keep waiting.
func TestCompiling(t *testing.T) {
	defer func(before time.Duration) { peerWait = before }(peerWait)
	peerWait = time.Second
	var c cluster
	replicas, o := c.newReplicas(t, 2)
	slots := hold(t, replicas[0].queue, replicas[0].config.Parallel)
	last, err := replicas[1].client.Build(t.Context(), o, func(e buildapi.Event) {
		if !e.Waiting {
			return
		}
		for _, r := range replicas {
			got := r.fetch(t, e.Key, 4)
			if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || !strings.Contains(string(got.body), "still compiling") {
				t.Errorf("fetching the binary: %d, %v, %s, want 503", got.status, got.header, got.body)
			}
		}
		for _, slot := range slots {
			replicas[0].queue.leave(slot)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range replicas {
		r.binary(t, last.Key)
		r.missing(t, "unknown", "not found")
	}
}

// TestReplicaCancels cancels a forwarded order, which cancels the build.
func TestReplicaCancels(t *testing.T) {
	var c cluster
	replicas, o := c.newReplicas(t, 2)
	hold(t, replicas[0].queue, replicas[0].config.Parallel)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := replicas[1].client.Build(ctx, o, func(buildapi.Event) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Build: %v, want that it was cancelled", err)
	}
	await(t, "the build has ended", func() bool { return !replicas[0].builds.has(replicas[0].key(o)) })
	building(t, replicas, -1)
}

// TestReplicaDiesInBuild stops the replica that builds. The client of the replica that has forwarded
// the order gets no report, and that replica builds when the client sends the order again. A waiting pod
// gets the binary.
func TestReplicaDiesInBuild(t *testing.T) {
	var c cluster
	replicas, o := c.newReplicas(t, 2)
	hold(t, replicas[0].queue, replicas[0].config.Parallel)
	accepted := make(chan struct{})
	accept := sync.OnceFunc(func() { close(accepted) })
	var clients sync.WaitGroup
	clients.Go(func() {
		event, err := replicas[1].client.Build(t.Context(), o, func(buildapi.Event) { accept() })
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("Build: %s, %v", event.Report, err)
		}
		event, err = replicas[1].client.Build(t.Context(), o, nil)
		if err != nil || !strings.Contains(string(event.Report), `"Built"`) {
			t.Errorf("Build: %s, %v", event.Report, err)
		}
	})
	<-accepted
	clients.Go(func() { replicas[1].binary(t, replicas[1].key(o)) })
	replicas[1].asked(t)
	replicas[0].end()
	clients.Wait()
	building(t, replicas, 1)
}

// If the preferred replica accepts orders and is lost each time, another one builds when the client sends
// its order again.
func TestReplicaLosesOrders(t *testing.T) {
	keys, err := buildapi.NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		buildapitest.Tell(w, buildapi.Event{Begun: true})
		panic(http.ErrAbortHandler) // closes the connection
	}))
	if other.TLS, err = keys.ServerTLS(); err != nil {
		t.Fatal(err)
	}
	other.StartTLS()
	defer other.Close()
	r := newReplica(t, Config{Replicas: func(context.Context) (string, []string, error) {
		return "", []string{strings.TrimPrefix(other.URL, "https://")}, nil // precedes
	}})
	r.accept = 2 * time.Minute
	o := buildapi.Order{Namespace: "team-a", Source: source(t, "")}
	if event, err := r.client.Build(t.Context(), o, nil); err == nil {
		t.Errorf("Build: %s, want an error", event.Report)
	}
	if _, report := r.build(t, o); report.Reason != builder.Built {
		t.Errorf("the report: %+v, want Built", report)
	}
}

// The client of an order that was forwarded, and that the other replica drops from its queue, gets the
// same response as from that replica.
func TestForwardedIsDropped(t *testing.T) {
	var c cluster
	replicas, o := c.newReplicas(t, 2)
	hold(t, replicas[0].queue, replicas[0].config.Parallel)
	for _, namespace := range []string{"team-b", "team-c", "team-d"} {
		for range maxQueue / 4 {
			if _, err := replicas[0].queue.enter(namespace, 1, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range maxQueue/4 - 1 {
		if _, err := replicas[0].queue.enter(o.Namespace, 1, false); err != nil {
			t.Fatal(err)
		}
	}
	_, err := replicas[1].client.Build(t.Context(), o, func(buildapi.Event) {
		if _, err := replicas[0].queue.enter("team-z", 1, false); err != nil { // the order is the newest of the largest
			t.Error(err)
		}
	})
	busy, ok := errors.AsType[*buildapi.StatusError](err)
	if !ok || !errors.Is(err, buildapi.ErrBusy) || busy.RetryAfter == 0 {
		t.Errorf("Build: %v, want ErrBusy and when to retry", err)
	}
	building(t, replicas, -1)
}

// Neither replica keeps the sources of orders for the same build that one has forwarded to the other.
func TestForwardedSourcesAreNotKept(t *testing.T) {
	const count = 16
	var c cluster
	replicas, o := c.newReplicas(t, 2)
	hold(t, replicas[0].queue, replicas[0].config.Parallel)
	o.Source += "// " + strings.Repeat("€", 200<<10) + "\n"
	key := replicas[0].key(o)
	slices.SortFunc(replicas, func(a, b *replica) int { return strings.Compare(weight(key, b.address()), weight(key, a.address())) })
	hold(t, replicas[0].queue, replicas[0].queue.free)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	before := heap()
	accepted := make(chan struct{}, count)
	for range count {
		clients.Go(func() {
			accept := sync.OnceFunc(func() { accepted <- struct{}{} })
			defer accept()
			_, err := replicas[1].client.Build(ctx, o, func(buildapi.Event) { accept() })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Build: %v", err)
			}
		})
	}
	for range count {
		<-accepted
	}
	await(t, "the replicas need less memory than the sources", func() bool { return heap()-before < count*len(o.Source)/2 })
	cancel()
	clients.Wait()
	building(t, replicas, -1)
}

// heap returns the size of the objects on the heap that are in use.
func heap() int {
	runtime.GC()
	runtime.GC() // sync.Pool keeps its objects for one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestReplicaDoesNotAccept makes the preferred replica fail to accept an order. The next one
// builds.
func TestReplicaDoesNotAccept(t *testing.T) {
	keys, err := buildapi.NewKeys(seed)
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan struct{})
	cases := map[string]http.HandlerFunc{
		"Dead":         nil,
		"Silent":       func(http.ResponseWriter, *http.Request) { <-released },
		"Busy":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"OtherVersion": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) },
	}
	for name, answer := range cases {
		t.Run(name, func(t *testing.T) {
			other := httptest.NewUnstartedServer(answer)
			if other.TLS, err = keys.ServerTLS(); err != nil {
				t.Fatal(err)
			}
			other.StartTLS()
			defer other.Close()
			if answer == nil {
				other.Close()
			}
			first := strings.TrimPrefix(other.URL, "https://")
			r := newReplica(t, Config{Replicas: func(context.Context) (string, []string, error) {
				return "", []string{first}, nil // the others precede
			}})
			if _, report := r.build(t, buildapi.Order{Namespace: "team-a", Source: source(t, "")}); report.Reason != builder.Built {
				t.Errorf("the report: %+v, want Built", report)
			}
			building(t, []*replica{r}, 0)
			if answer != nil && name == "Silent" {
				close(released)
			}
		})
	}
}

// TestReplicasDisagree has a replica build that knows no others. The others find its binary.
func TestReplicasDisagree(t *testing.T) {
	var c cluster
	replicas, o := c.newReplicas(t, 3)
	replicas[2].config.Replicas = func(context.Context) (string, []string, error) {
		return "", nil, errors.New("no such host")
	}
	var pod sync.WaitGroup
	pod.Go(func() { replicas[0].binary(t, replicas[0].key(o)) })
	replicas[2].asked(t)
	key, _ := replicas[2].build(t, o)
	pod.Wait()
	replicas[1].binary(t, key)
	building(t, replicas, 2)
}

// TestPeersAskNobodyElse sends a request like another replica. The response must not depend on
// other replicas.
func TestPeersAskNobodyElse(t *testing.T) {
	r := newReplica(t, Config{Replicas: func(context.Context) (string, []string, error) {
		t.Error("other replicas were looked up")
		return "", nil, errors.New("no such host")
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		if err := r.fetchFrom(ctx, r.address(), strings.Repeat("0", 64)); err == nil {
			t.Error("a binary was fetched that no replica has")
		}
	})
	r.asked(t)
	cancel()
	asking.Wait()
}

// TestManyWaitForOneFetch has many clients request a missing binary while another replica does not
// respond: they share one fetch.
func TestManyWaitForOneFetch(t *testing.T) {
	r := newReplica(t, Config{Replicas: func(ctx context.Context) (string, []string, error) {
		<-ctx.Done()
		return "", nil, ctx.Err()
	}})
	before := runtime.NumGoroutine()
	for range 100 {
		r.Service.fetch(strings.Repeat("0", 64))
	}
	if more := runtime.NumGoroutine() - before; more > 20 {
		t.Errorf("%d goroutines fetch what 100 clients wait for", more)
	}
}

// TestPeerLies fetches a binary with the signature of another one.
func TestPeerLies(t *testing.T) {
	a, b := newReplica(t, Config{}), newReplica(t, Config{})
	key, _ := a.build(t, buildapi.Order{Namespace: "team-a", Source: source(t, "")})
	other, _ := a.build(t, buildapi.Order{Namespace: "team-b", Source: source(t, "")})
	a.store.mu.Lock()
	a.store.stored[key].Signature = a.store.stored[other].Signature
	a.store.mu.Unlock()
	if err := b.fetchFrom(t.Context(), a.address(), key); !errors.Is(err, buildapi.ErrSignature) {
		t.Errorf("fetchFrom: %v, want ErrSignature", err)
	}
	if _, ok := b.store.find(key); ok {
		t.Error("it was stored")
	}
}

// TestPeerStalls fetches from a replica that stops sending in the middle. The transfers time out,
// their concurrency is limited, and they leave no files.
func TestPeerStalls(t *testing.T) {
	grace := transferGrace
	transferGrace = time.Second
	t.Cleanup(func() { transferGrace = grace })
	r := newReplica(t, Config{})
	sent, err := result{Report: []byte("{}"), Signature: "s", Size: 10}.header()
	if err != nil {
		t.Fatal(err)
	}
	peer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(resultHeader, sent)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	if peer.TLS, err = r.keys.ServerTLS(); err != nil {
		t.Fatal(err)
	}
	peer.StartTLS()
	t.Cleanup(peer.Close)
	var fetching sync.WaitGroup
	for i := range 2 * maxReceiving {
		fetching.Go(func() {
			err := r.fetchFrom(t.Context(), strings.TrimPrefix(peer.URL, "https://"), strconv.Itoa(i))
			if err == nil || !strings.Contains(err.Error(), "did not send the binary within") {
				t.Errorf("fetchFrom: %v, want that it took too long", err)
			}
		})
	}
	await(t, "binaries are being received", func() bool { return len(r.receiving) == maxReceiving })
	if begun, err := filepath.Glob(filepath.Join(r.config.Store, unfinished+"*")); err != nil || len(begun) > maxReceiving {
		t.Errorf("%d binaries are being received, %v, want at most %d", len(begun), err, maxReceiving)
	}
	fetching.Wait()
	if r.store.size != 0 || len(r.receiving) != 0 {
		t.Errorf("%d bytes are reserved for %d binaries", r.store.size, len(r.receiving))
	}
}

func TestLookup(t *testing.T) {
	if _, err := Lookup("no port"); err == nil {
		t.Error("Lookup accepts an address without a port")
	}
	for hostport, want := range map[string]struct{ own, other string }{
		"localhost:8443":                      {own: "127.0.0.1:8443"},
		net.JoinHostPort("192.0.2.1", "8443"): {other: "192.0.2.1:8443"},
	} {
		lookup, err := Lookup(hostport)
		if err != nil {
			t.Fatal(err)
		}
		own, others, err := lookup(t.Context())
		if err != nil || (own == "") != (want.own == "") || strings.Join(others, " ") != want.other {
			t.Errorf("Lookup(%q) finds %q and %q, %v, want %+v", hostport, own, others, err, want)
		}
	}
}
