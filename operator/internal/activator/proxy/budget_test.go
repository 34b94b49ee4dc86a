package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"goless.io/operator/internal/activator/backend"
)

// The tenant with the largest share loses its newest held request first, and then its oldest
// charge.
func TestBudget(t *testing.T) {
	greedy, ingress := tenant{"192.0.2.1", "a"}, tenant{"192.0.2.2", "a"}
	var evicted []string
	evict := func(name string) func() { return func() { evicted = append(evicted, name) } }
	is := func(want ...string) {
		t.Helper()
		if !slices.Equal(evicted, want) {
			t.Errorf("evicted: %v, want %v", evicted, want)
		}
		evicted = nil
	}
	b := newBudget(100, 4)
	connection := b.add(greedy, 20, evict("connection"))
	b.add(greedy, 20, evict("another"))
	held := b.hold(greedy, 20, evict("held"))
	other := b.hold(ingress, 30, evict("of another"))
	is()
	b.hold(tenant{"192.0.2.2", "b"}, 20, evict("of another namespace"))
	is("held")
	held.grow(1000) // no effect after eviction
	held.serve(1000, evict("held"))
	held.end()
	connection.grow(20)
	is("connection")
	connection.end()
	b.hold(greedy, 5, evict("held"))
	b.hold(greedy, 5, evict("held"))
	is()
	b.hold(greedy, 5, evict("one too many"))
	is("one too many")
	if b.hold(greedy, 1000, evict("too large")); b.used > 100 || b.usedHeld > 4 {
		t.Errorf("%d bytes and %d requests", b.used, b.usedHeld)
	}
	is("too large")
	other.serve(100, evict("served"))
	is("served")
}

// Exceeding the limit of held requests does not evict a served request, even if its tenant uses the
// most bytes.
func TestHeldLimitKeepsServed(t *testing.T) {
	var evicted []string
	evict := func(name string) func() { return func() { evicted = append(evicted, name) } }
	b := newBudget(1000, 2)
	b.add(tenant{"192.0.2.1", "a"}, 500, evict("served"))
	b.hold(tenant{"192.0.2.2", "a"}, 10, evict("oldest"))
	b.hold(tenant{"192.0.2.2", "a"}, 10, evict("newest"))
	b.hold(tenant{"192.0.2.3", "a"}, 20, evict("of another"))
	if want := []string{"newest"}; !slices.Equal(evicted, want) {
		t.Errorf("evicted: %v, want %v", evicted, want)
	}
}

// Idle connections of a tenant are evicted before busy ones, regardless of their age.
func TestBusyConnection(t *testing.T) {
	var evicted []string
	evict := func(name string) func() { return func() { evicted = append(evicted, name) } }
	b := newBudget(40, 0)
	p := tenant{"192.0.2.1", "a"}
	b.add(p, 10, evict("busy"))
	b.add(p, 10, evict("idle")).setBusy(false)
	ended := b.add(p, 10, evict("ended"))
	b.add(p, 10, evict("newest"))
	ended.setBusy(false)
	b.add(tenant{"192.0.2.2", "a"}, 20, evict("of another"))
	b.add(tenant{"192.0.2.2", "a"}, 1, evict("of another"))
	b.add(p, 20, evict("too large"))
	if want := []string{"idle", "ended", "of another", "busy"}; !slices.Equal(evicted, want) {
		t.Errorf("evicted: %v, want %v", evicted, want)
	}
}

// A new connection replaces the oldest one if all of its tenant are busy: a client with requests on all
// connections does not keep out others that share its address.
func TestNewConnection(t *testing.T) {
	var evicted []int
	b := newBudget(40, 0)
	for i := range 5 {
		b.add(tenant{"192.0.2.1", "a"}, 10, func() { evicted = append(evicted, i) }).setBusy(true)
	}
	if want := []int{0}; !slices.Equal(evicted, want) {
		t.Errorf("evicted: %v, want %v", evicted, want)
	}
}

// Many clients in one namespace do not evict the connections of another namespace that share one
// address.
func TestManyClientAddresses(t *testing.T) {
	evicted := map[string]int{}
	evict := func(name string) func() { return func() { evicted[name]++ } }
	b := newBudget(100, 0)
	for range 4 {
		b.add(tenant{"192.0.2.1", "a"}, 10, evict("of the ingress"))
	}
	for i := range 100 {
		b.add(tenant{fmt.Sprint("198.51.100.", i), "b"}, 1, evict("of many"))
	}
	if evicted["of the ingress"] != 0 || evicted["of many"] != 40 {
		t.Errorf("evicted: %v", evicted)
	}
}

// raced is true if the race detector is enabled, which needs additional memory.
var raced bool

// memory returns the heap and stack memory in use.
func memory() int64 {
	runtime.GC()
	runtime.GC() // also frees the victim caches of sync.Pool
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func (s *Server) charged() int64 {
	used := int64(0)
	for _, b := range []*budget{s.connections, s.requests} {
		b.mu.Lock()
		used += b.used
		b.mu.Unlock()
	}
	return used
}

// connect opens a connection from a local address and sends text.
func (a *activator) connect(t *testing.T, from, text string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := dialer.Dial("tcp", "127.0.0.1:"+portOf(t, a.listeners[hello.Service].Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() }) // may already be closed
	_ = connection.SetWriteDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(connection, text) // may be evicted
}

func header(lines, length int) string {
	text := strings.Builder{}
	for i := range lines {
		_, _ = fmt.Fprintf(&text, "a%d:%s\r\n", i, strings.Repeat("x", length))
	}
	return text.String()
}

const many = 100

// The charged cost matches the actual memory use.
func TestCosts(t *testing.T) {
	pod, err := net.Listen("tcp", "127.0.0.1:0") // accepts and does not respond
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pod.Close() }) // cannot fail
	served := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", pod.Addr().String())
	}
	const start = "GET / HTTP/1.1\r\nHost: f\r\n"
	for name, test := range map[string]struct {
		text string
		dial func(context.Context) (net.Conn, error)
	}{
		"Silent":     {"", blockingDial},
		"Unfinished": {start + header(100, 100), blockingDial},
		"ManyLines":  {start + header(1500, 1), blockingDial},
		"Held":       {start + "\r\n", blockingDial},
		"HeldLong":   {start + header(1, 15000) + "\r\n", blockingDial},
		"HeldMany":   {start + header(1500, 1) + "\r\n", blockingDial},
		"Served":     {start + "\r\n", served},
		"ServedLong": {start + header(1, 15000) + "\r\n", served},
		"ServedMany": {start + header(1500, 1) + "\r\n", served},
		"HTTP2":      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", blockingDial},
	} {
		t.Run(name, func(t *testing.T) {
			a := newActivator(t, Limits{Bytes: 1 << 30, Held: many, HeldPerFunction: many, Timeout: time.Minute}, test.dial)
			before := memory()
			for range many {
				a.connect(t, "127.0.0.1", test.text)
			}
			eventually(t, "all connections accepted", func() bool {
				return a.connections.Load() == many && (!strings.HasSuffix(test.text, "\r\n\r\n") || a.inFlight.Load() == many)
			})
			last := int64(0)
			eventually(t, "memory use stable", func() bool {
				time.Sleep(50 * time.Millisecond)
				grown := memory() - last
				last += grown
				return grown < 1<<16
			})
			taken, charged := last-before, a.charged()
			t.Logf("%d bytes per connection, %d charged", taken/many, charged/many)
			if taken > charged && !raced {
				t.Errorf("%d bytes used, %d charged", taken, charged)
			}
		})
	}
}

func blockingDial(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// One client cannot exceed the memory limit or prevent other requests from being served.
func TestGreedyClient(t *testing.T) {
	const start = "GET / HTTP/1.1\r\nHost: f\r\n"
	for name, text := range map[string]string{
		"Silent": "", "Unfinished": start + header(1500, 1), "Held": start + header(1, 15000) + "\r\n", "HeldMany": start + header(1500, 1) + "\r\n",
		"TooLong": start + header(1, 900<<10) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			const bytes = 3 << 20
			dial := function(t, func(http.ResponseWriter, *http.Request) {})
			awake := make(chan struct{})
			a := newActivator(t, Limits{Bytes: bytes, Held: 5000, HeldPerFunction: 5000, Timeout: time.Minute}, func(ctx context.Context) (net.Conn, error) {
				select {
				case <-awake:
					return dial(ctx)
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			})
			before := memory()
			for range 3 * many {
				a.connect(t, "127.0.0.2", text)
			}
			client := &http.Client{Transport: &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.3")}}).DialContext}, Timeout: time.Minute}
			status := make(chan int)
			go func() {
				status <- statusOf(t, client, "http://127.0.0.1:"+portOf(t, a.listeners[hello.Service].Addr()))
			}()
			eventually(t, "request of another client held", func() bool {
				a.requests.mu.Lock()
				defer a.requests.mu.Unlock()
				return a.requests.shares[tenant{"127.0.0.3", hello.Function.Namespace}] != nil
			})
			eventually(t, "memory use bounded", func() bool { return a.charged() <= bytes && (raced || memory()-before < 2*bytes) })
			close(awake)
			if got := <-status; got != http.StatusOK {
				t.Errorf("another client received status %d", got)
			}
		})
	}
}

// statusOf returns the status code of a response, or 0 after reporting an error.
func statusOf(t *testing.T, client *http.Client, url string) int {
	response, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = response.Body.Close() // only the status is read
	return response.StatusCode
}

// Namespaces behind one ingress, whose requests share an address, do not evict each other.
func TestGreedyNamespace(t *testing.T) {
	a := newActivator(t, Limits{Held: 10, HeldPerFunction: 100, Timeout: time.Minute}, blockingDial)
	other := backend.Backend{}
	other.Service.Namespace, other.Service.Name, other.Function.Namespace, other.UID = "other", "other", "other", "2"
	if err := a.Listen(other, 0); err != nil {
		t.Fatal(err)
	}
	var clients sync.WaitGroup
	defer clients.Wait()
	defer a.Close(other.Service)
	defer a.Close(hello.Service)
	statuses := make(chan string, 20)
	for range 10 {
		clients.Go(func() {
			status, retryAfter, body := get(t, http.DefaultClient, a.url)
			statuses <- fmt.Sprint(status, " ", retryAfter, " ", body)
		})
	}
	eventually(t, "ten requests held", func() bool { return a.held.Load() == 10 })
	url := "http://localhost:" + portOf(t, a.listeners[other.Service].Addr())
	clients.Go(func() { get(t, http.DefaultClient, url) })
	if got := <-statuses; got != "503 1 too many requests are waiting for sleeping functions\n" {
		t.Errorf("the newest request received %s", got)
	}
	if n := a.listeners[other.Service].held.Load(); n != 1 {
		t.Errorf("%d requests of the other namespace held, want 1", n)
	}
}
