package buildclient

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"goless.io/builder/buildapi"
	"goless.io/builder/buildapi/buildapitest"
	"goless.io/operator/internal/buildclient/buildtest"
)

var (
	fn     = types.NamespacedName{Namespace: "team", Name: "f"}
	wanted = buildapi.Order{Namespace: "team", Source: "package handlers\n", Memory: 1 << 20}
)

// start returns Orders for a service that replies with the report for each source.
func start(t *testing.T, report map[string]string) (*Orders, *buildtest.Service) {
	t.Helper()
	keys, err := buildapi.NewKeys(make([]byte, buildapi.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	service := buildtest.New(func() (*buildapi.Keys, error) { return keys, nil })
	t.Cleanup(service.Close)
	service.Set(t, func(o buildapi.Order) buildtest.Reply { return buildtest.Reply{Report: report[o.Source]} })
	orders := New(&Service{last: &connection{url: service.URL, keys: keys, client: buildapi.NewClient(service.URL, keys)}})
	readChanged(t, orders)
	return orders, service
}

// readChanged consumes the events of orders until the end of the test, and closes them then.
func readChanged(t *testing.T, orders *Orders) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-orders.changed:
			case <-ended:
				return
			}
		}
	}()
	t.Cleanup(func() {
		orders.close()
		close(ended)
	})
}

// source returns the stored source of an order.
func (o *Orders) source(sha256 string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.byFunction[fn][sha256].Source
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after 1m0s: %s", what)
		}
	}
}

// The source of a Function that does not compile is not kept, because it is not sent again.
func TestInvalidSourceIsDropped(t *testing.T) {
	orders, _ := start(t, map[string]string{wanted.Source: `{"reason":"CompileFailed"}`})
	orders.Add(fn, "1", wanted, "", nil)
	await(t, "the answer is known", func() bool { return len(orders.Answers(fn)["1"].Report) > 0 })
	await(t, "the source is dropped", func() bool { return orders.source("1") == "" })
	if !orders.Has(fn, "1", wanted) {
		t.Error("the order was removed and would be sent again")
	}
}

// A successful order is sent again after Doubt, and not before. Its source is loaded for that if the
// service has lost the binary, and not kept.
func TestDoubtResends(t *testing.T) {
	pauses, failed := afterBuilt, afterFailure
	afterBuilt, afterFailure = backoff(2*time.Millisecond, 3*time.Millisecond), backoff(2*time.Millisecond, 4*time.Millisecond)
	t.Cleanup(func() { afterBuilt, afterFailure = pauses, failed })
	other := wanted
	other.Source += "// fails\n"
	orders, service := start(t, map[string]string{wanted.Source: buildtest.Built, other.Source: `{"reason":"BuildFailed"}`})
	loads := func(source string) Load {
		return func(context.Context) (string, error) { return source, nil }
	}
	sent := func(source string) (n int) {
		for _, o := range service.Orders(wanted.Namespace) {
			if o.Source == source {
				n++
			}
		}
		return n
	}
	orders.Doubt(fn) // no effect without an answer
	orders.Add(fn, "1", wanted, "", loads(wanted.Source))
	await(t, "it is built", func() bool { return orders.Answers(fn)["1"].Binary != nil })
	for again := 1; again < 4; again++ {
		orders.Add(fn, "2", other, "", loads(other.Source)) // its repeated orders measure the time
		before := sent(other.Source)
		await(t, "a failure is sent again and again", func() bool { return sent(other.Source) > before+20 })
		if n := sent(wanted.Source); n != again {
			t.Fatalf("the built order was sent %d times, want %d", n, again)
		}
		if orders.source("1") != "" {
			t.Error("the source of a built order is kept")
		}
		orders.Keep(fn, []string{"1"})
		asked := service.Asked()
		orders.Doubt(fn)
		await(t, "the service is asked for the binary", func() bool { return service.Asked() > asked })
		if n := sent(wanted.Source); n != again {
			t.Errorf("the source was sent %d times although the service has the binary, want %d", n, again)
		}
		service.Lose()
		orders.Doubt(fn)
		await(t, "it is sent again", func() bool { return sent(wanted.Source) == again+1 })
	}
}

// An order for a binary that pods have is sent without its source, which is loaded only if the
// service has lost the binary.
func TestOrderByKey(t *testing.T) {
	orders, service := start(t, map[string]string{wanted.Source: buildtest.Built})
	key := service.Key(wanted)
	bare := wanted
	bare.Source = ""
	loaded := 0
	load := func(context.Context) (string, error) {
		loaded++
		return wanted.Source, nil
	}
	for times, lost := range []bool{true, false} { // at first, the service has nothing
		orders.Add(fn, "1", bare, key, load)
		await(t, "the binary is known", func() bool { return orders.Answers(fn)["1"].Binary != nil })
		if got := orders.Answers(fn)["1"].Binary.Key; got != key {
			t.Errorf("the binary is %s, want %s", got, key)
		}
		if !orders.Has(fn, "1", wanted) {
			t.Error("the order does not count as sent")
		}
		if loaded != 1 || len(service.Orders(wanted.Namespace)) != 1 {
			t.Errorf("lost: %t: the source was loaded %d times and sent %d times in %d orders, want once", lost, loaded, len(service.Orders(wanted.Namespace)), times+1)
		}
		orders.Keep(fn, nil)
	}
}

// No more than maxByKey orders are sent by their key at the same time.
func TestOrdersByKeyAreBounded(t *testing.T) {
	orders, service := start(t, map[string]string{wanted.Source: buildtest.Built})
	for range maxByKey { // orders that the service does not answer
		orders.byKey <- struct{}{}
	}
	bare := wanted
	bare.Source = ""
	orders.Add(fn, "1", bare, service.Key(wanted), func(context.Context) (string, error) { return wanted.Source, nil })
	time.Sleep(200 * time.Millisecond)
	if orders.Answers(fn)["1"].Binary != nil {
		t.Error("the order did not wait")
	}
	<-orders.byKey
	await(t, "the binary is known", func() bool { return orders.Answers(fn)["1"].Binary != nil })
}

// No more than maxUploads orders are sent with their source at the same time. The others do not keep
// their source while they wait.
func TestUploadsAreBounded(t *testing.T) {
	orders, service := start(t, map[string]string{wanted.Source: buildtest.Built})
	for range maxUploads { // orders that the service does not answer
		orders.uploads <- struct{}{}
	}
	orders.Add(fn, "1", wanted, "", func(context.Context) (string, error) { return wanted.Source, nil })
	await(t, "the source is dropped", func() bool { return orders.source("1") == "" })
	if len(service.Orders(wanted.Namespace)) != 0 {
		t.Error("the order did not wait")
	}
	<-orders.uploads
	await(t, "the binary is known", func() bool { return orders.Answers(fn)["1"].Binary != nil })
	if n := len(orders.uploads); n != maxUploads-1 {
		t.Errorf("%d uploads are counted after the order was sent, want %d", n, maxUploads-1)
	}
}

// An order that is queued in the service, or that the service rejects, needs little memory in the
// operator, however large its source is.
func TestOrdersDoNotKeepTheirSource(t *testing.T) {
	keys, err := buildapi.NewKeys(make([]byte, buildapi.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	const orders, rejected, size = 64, 32, 240 << 10
	var received atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if received.Add(1) <= rejected {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		buildapitest.Tell(w, buildapi.Event{Waiting: true})
		<-r.Context().Done()
	}))
	if server.TLS, err = keys.ServerTLS(); err != nil {
		t.Fatal(err)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	all := New(&Service{last: &connection{url: server.URL, keys: keys, client: buildapi.NewClient(server.URL, keys)}})
	readChanged(t, all)
	before := heap()
	for i := range orders {
		name := types.NamespacedName{Namespace: "team", Name: strconv.Itoa(i)}
		load := func(context.Context) (string, error) { return strings.Repeat("<", size), nil } // 6 bytes each in JSON
		source, _ := load(t.Context())
		all.Add(name, "1", buildapi.Order{Namespace: "team", Source: source}, "", load)
	}
	await(t, "all orders are queued in the service", func() bool { return received.Load() >= orders+rejected })
	if grown := heap() - before; grown > orders*size {
		t.Errorf("%d orders with sources of %d bytes need %d bytes", orders, size, grown)
	}
}

// heap returns the size of the objects on the heap that are in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
