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

	"goless.io/operator/internal/activator/target"
)

// Who has more than others gives way: its newest held request first, and then what it has had for the
// longest time.
func TestBudget(t *testing.T) {
	greedy, ingress := party{"192.0.2.1", "a"}, party{"192.0.2.2", "a"}
	var dropped []string
	drop := func(name string) func() { return func() { dropped = append(dropped, name) } }
	is := func(want ...string) {
		t.Helper()
		if !slices.Equal(dropped, want) {
			t.Errorf("dropped: %v, want %v", dropped, want)
		}
		dropped = nil
	}
	b := newBudget(100, 4)
	connection := b.add(greedy, 20, drop("connection"))
	b.add(greedy, 20, drop("another"))
	held := b.hold(greedy, 20, drop("held"))
	other := b.hold(ingress, 30, drop("of another"))
	is()
	b.hold(party{"192.0.2.2", "b"}, 20, drop("of another namespace"))
	is("held")
	held.grow(1000) // it is over
	held.serve(1000, drop("held"))
	held.end()
	connection.grow(20)
	is("connection")
	connection.end()
	b.hold(greedy, 5, drop("held"))
	b.hold(greedy, 5, drop("held"))
	is()
	b.hold(greedy, 5, drop("one too many"))
	is("one too many")
	if b.hold(greedy, 1000, drop("too large")); b.used > 100 || b.usedHeld > 4 {
		t.Errorf("%d bytes and %d requests", b.used, b.usedHeld)
	}
	is("too large")
	other.serve(100, drop("served"))
	is("served")
}

// Many bytes are no reason to lose a served request when too many others are held: that would make no
// room for them.
func TestTooManyHeld(t *testing.T) {
	var dropped []string
	drop := func(name string) func() { return func() { dropped = append(dropped, name) } }
	b := newBudget(1000, 2)
	b.add(party{"192.0.2.1", "a"}, 500, drop("served"))
	b.hold(party{"192.0.2.2", "a"}, 10, drop("oldest"))
	b.hold(party{"192.0.2.2", "a"}, 10, drop("newest"))
	b.hold(party{"192.0.2.3", "a"}, 20, drop("of another"))
	if want := []string{"newest"}; !slices.Equal(dropped, want) {
		t.Errorf("dropped: %v, want %v", dropped, want)
	}
}

// A connection with requests outlives those of its party that are idle, however old it is.
func TestBusyConnection(t *testing.T) {
	var dropped []string
	drop := func(name string) func() { return func() { dropped = append(dropped, name) } }
	b := newBudget(40, 0)
	p := party{"192.0.2.1", "a"}
	b.add(p, 10, drop("busy")).setBusy(true)
	b.add(p, 10, drop("idle"))
	ended := b.add(p, 10, drop("ended"))
	ended.setBusy(true)
	b.add(p, 10, drop("newest")).setBusy(true)
	ended.setBusy(false)
	b.add(party{"192.0.2.2", "a"}, 20, drop("of another"))
	b.add(party{"192.0.2.2", "a"}, 1, drop("of another"))
	b.add(p, 20, drop("too large"))
	if want := []string{"idle", "ended", "of another", "too large"}; !slices.Equal(dropped, want) {
		t.Errorf("dropped: %v, want %v", dropped, want)
	}
}

// Many clients of one namespace do not take the connections of another one's, of which a single ingress has most.
func TestManyAddresses(t *testing.T) {
	dropped := map[string]int{}
	drop := func(name string) func() { return func() { dropped[name]++ } }
	b := newBudget(100, 0)
	for range 4 {
		b.add(party{"192.0.2.1", "a"}, 10, drop("of the ingress"))
	}
	for i := range 100 {
		b.add(party{fmt.Sprint("198.51.100.", i), "b"}, 1, drop("of many"))
	}
	if dropped["of the ingress"] != 0 || dropped["of many"] != 40 {
		t.Errorf("dropped: %v", dropped)
	}
}

// raced is true with the race detector, which takes memory of its own.
var raced bool

// memory is what this process uses: of the heap, and of stacks.
func memory() int64 {
	runtime.GC()
	runtime.GC() // what the first one has put aside from pools
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

// connect opens a connection from an address of this machine, and sends something.
func (a *activator) connect(t *testing.T, from, text string) {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	connection, err := dialer.Dial("tcp", "127.0.0.1:"+portOf(t, a.listeners[hello.Service].Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() }) // it may have been cut
	_ = connection.SetWriteDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(connection, text) // it may be cut
}

func header(lines, length int) string {
	text := strings.Builder{}
	for i := range lines {
		_, _ = fmt.Fprintf(&text, "a%d:%s\r\n", i, strings.Repeat("x", length))
	}
	return text.String()
}

const many = 100

// What is charged is what connections and requests take.
func TestCosts(t *testing.T) {
	pod, err := net.Listen("tcp", "127.0.0.1:0") // it accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pod.Close() }) // it is open
	served := func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", pod.Addr().String())
	}
	const start = "GET / HTTP/1.1\r\nHost: f\r\n"
	for name, test := range map[string]struct {
		text string
		dial func(context.Context) (net.Conn, error)
	}{
		"Silent":     {"", forever},
		"Unfinished": {start + header(100, 100), forever},
		"ManyLines":  {start + header(1500, 1), forever},
		"Held":       {start + "\r\n", forever},
		"HeldLong":   {start + header(1, 15000) + "\r\n", forever},
		"HeldMany":   {start + header(1500, 1) + "\r\n", forever},
		"Served":     {start + "\r\n", served},
		"ServedLong": {start + header(1, 15000) + "\r\n", served},
		"ServedMany": {start + header(1500, 1) + "\r\n", served},
		"HTTP2":      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", forever},
	} {
		t.Run(name, func(t *testing.T) {
			a := newActivator(t, Limits{Bytes: 1 << 30, Held: many, HeldPerFunction: many, Timeout: time.Minute}, test.dial)
			before := memory()
			for range many {
				a.connect(t, "127.0.0.1", test.text)
			}
			eventually(t, "everything has come", func() bool {
				return a.connections.Load() == many && (!strings.HasSuffix(test.text, "\r\n\r\n") || a.inFlight.Load() == many)
			})
			last := int64(0)
			eventually(t, "nothing grows", func() bool {
				time.Sleep(50 * time.Millisecond)
				grown := memory() - last
				last += grown
				return grown < 1<<16
			})
			taken, charged := last-before, a.charged()
			t.Logf("%d bytes each, %d are charged", taken/many, charged/many)
			if taken > charged && !raced {
				t.Errorf("%d bytes are taken, and %d charged", taken, charged)
			}
		})
	}
}

func forever(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// However much a client opens, memory is bounded, and the request of another one is served.
func TestOneClientTakesAll(t *testing.T) {
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
			eventually(t, "the request of another client is held", func() bool {
				a.requests.mu.Lock()
				defer a.requests.mu.Unlock()
				return a.requests.shares[party{"127.0.0.3", hello.Function.Namespace}] != nil
			})
			eventually(t, "memory is bounded", func() bool { return a.charged() <= bytes && (raced || memory()-before < 2*bytes) })
			close(awake)
			if got := <-status; got != http.StatusOK {
				t.Errorf("another client gets %d", got)
			}
		})
	}
}

// statusOf returns the status of an answer, and 0 without one, which is an error.
func statusOf(t *testing.T, client *http.Client, url string) int {
	response, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = response.Body.Close() // the status is enough
	return response.StatusCode
}

// The namespaces of one ingress, whose requests have one address, do not take from each other either.
func TestOneNamespaceTakesAll(t *testing.T) {
	a := newActivator(t, Limits{Held: 10, HeldPerFunction: 100, Timeout: time.Minute}, forever)
	other := target.Target{}
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
	eventually(t, "ten are held", func() bool { return a.held.Load() == 10 })
	url := "http://localhost:" + portOf(t, a.listeners[other.Service].Addr())
	clients.Go(func() { get(t, http.DefaultClient, url) })
	if got := <-statuses; got != "503 1 too many requests wait for functions to wake\n" {
		t.Errorf("the newest one gets %s", got)
	}
	if n := a.listeners[other.Service].held.Load(); n != 1 {
		t.Errorf("%d of the other namespace are held", n)
	}
}
