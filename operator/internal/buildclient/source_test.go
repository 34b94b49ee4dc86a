package buildclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
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
	orders.Add(fn, "1", wanted, "", func(context.Context) (string, error) { return wanted.Source, nil })
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

// No more than maxUploads orders are sent with their source at the same time, and no more than
// maxUploadsOfNamespace of a namespace. The others do not keep their source while they wait.
func TestUploadsAreBounded(t *testing.T) {
	orders, service := start(t, map[string]string{wanted.Source: buildtest.Built})
	var loads atomic.Int32
	load := func(context.Context) (string, error) {
		loads.Add(1)
		return wanted.Source, nil
	}
	var ends []func()
	for i := range maxUploads { // orders that the service does not answer
		end, err := orders.beginUpload(t.Context(), &order{Order: buildapi.Order{Namespace: []string{"team", "other-1", "other-2", "other-3"}[i%4]}})
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	orders.Add(fn, "1", wanted, "", load)
	await(t, "the source is dropped", func() bool { return orders.source("1") == "" })
	ends[1]() // of another namespace
	other := types.NamespacedName{Namespace: "other-4", Name: "f"}
	elsewhere := wanted
	elsewhere.Namespace = other.Namespace
	orders.Add(other, "1", elsewhere, "", load)
	await(t, "the order of another namespace is sent", func() bool { return orders.Answers(other)["1"].Binary != nil })
	if n := len(service.Orders(wanted.Namespace)); n != 0 {
		t.Errorf("%d orders of a namespace with %d uploads were sent", n, maxUploadsOfNamespace)
	}
	ends[0]()
	await(t, "the binary is known", func() bool { return orders.Answers(fn)["1"].Binary != nil })
	if n := loads.Load(); n != 1 {
		t.Errorf("%d sources were read, want 1: that of the order that waited", n)
	}
	await(t, "the uploads have ended", func() bool { return len(orders.uploads) == maxUploads-2 })
}

// A canceled order that waits, and orders that fail, do not remain counted as uploads.
func TestUploadsEnd(t *testing.T) {
	orders, service := start(t, nil)
	var rejected atomic.Bool
	service.Set(t, func(buildapi.Order) buildtest.Reply {
		rejected.Store(true)
		return buildtest.Reply{Status: http.StatusTooManyRequests, RetryAfter: "3"}
	})
	none := func() bool { return len(orders.uploads) == 0 }
	var read atomic.Int64 // when the source was read first, more than two seconds after the previous error
	orders.Add(fn, "1", wanted, "", func(context.Context) (string, error) {
		read.CompareAndSwap(0, time.Now().UnixNano())
		return "", &url.Error{Op: "Get", URL: "https://10.96.0.1", Err: &net.OpError{Op: "read", Net: "tcp", Addr: &net.TCPAddr{Port: 48312}, Err: syscall.ECONNRESET}}
	})
	await(t, "the order was rejected", rejected.Load)
	await(t, "the error of reading the source is reported", func() bool {
		since, found := strings.CutPrefix(orders.Answers(fn)["1"].Trouble, "the source could not be read since ")
		since, of := strings.CutSuffix(since, ": read: connection reset by peer")
		at, err := time.Parse(time.RFC3339, since)
		return found && of && err == nil && at.Add(2*time.Second).After(time.Unix(0, read.Load()))
	})
	await(t, "no upload is counted", none)
	orders.Keep(fn, nil)

	var ends []func()
	for range maxUploadsOfNamespace {
		end, err := orders.beginUpload(t.Context(), &order{Order: wanted})
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
	}
	for range maxUploads - maxUploadsOfNamespace {
		orders.uploads <- struct{}{}
		ends = append(ends, func() { <-orders.uploads })
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * maxUploadsOfNamespace {
		for _, namespace := range []string{wanted.Namespace, "other"} { // waits for its namespace, and for all
			if _, err := orders.beginUpload(ctx, &order{Order: buildapi.Order{Namespace: namespace}}); !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
		}
	}
	if n := len(orders.byNamespace); n != 1 {
		t.Errorf("uploads of %d namespaces are counted, want 1", n)
	}
	for _, end := range ends {
		end()
	}
	if !none() || len(orders.byNamespace) != 0 {
		t.Errorf("%d uploads are counted, and those of %d namespaces", len(orders.uploads), len(orders.byNamespace))
	}
}

// An order that the service does not accept in time is sent again later. Others of its namespace are sent
// meanwhile. The error is reported after the first attempt, which took longer than errors are tolerated.
func TestUploadTimeout(t *testing.T) {
	timeout := uploadTimeout
	uploadTimeout = toleratedErrors
	t.Cleanup(func() { uploadTimeout = timeout })
	var received atomic.Int32
	orders := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // otherwise the server does not notice that the client is gone
		switch {
		case !strings.Contains(string(body), `"source"`):
			http.NotFound(w, r)
			return
		case strings.Contains(string(body), "accepted"):
			buildapitest.Tell(w, buildapi.Event{Report: []byte(buildtest.Built)})
			return
		}
		received.Add(1)
		<-r.Context().Done()
	})
	reported := make(chan struct{})
	load := func(ctx context.Context) (string, error) { // for the second attempt
		if received.Load() < maxUploadsOfNamespace {
			return wanted.Source, nil
		}
		select {
		case <-reported:
		case <-ctx.Done():
		}
		return wanted.Source, ctx.Err()
	}
	for i := range maxUploadsOfNamespace {
		orders.Add(fn, strconv.Itoa(i), wanted, "", load)
	}
	await(t, "the service has received them", func() bool { return received.Load() >= maxUploadsOfNamespace })
	accepted := wanted
	accepted.Source = "package accepted\n"
	orders.Add(fn, "accepted", accepted, "", func(context.Context) (string, error) { return accepted.Source, nil })
	await(t, "the status says that an order was not accepted", func() bool {
		return strings.HasSuffix(orders.Answers(fn)["0"].Trouble, errNotAccepted.Error())
	})
	close(reported)
	await(t, "another order is sent", func() bool { return orders.Answers(fn)["accepted"].Binary != nil })
	orders.Keep(fn, nil)
	await(t, "no upload is counted", func() bool { return len(orders.uploads) == 0 })
}

// While the API server does not respond, the status says so, and no order is sent.
func TestReadTimeout(t *testing.T) {
	timeout := readTimeout
	readTimeout = 50 * time.Millisecond
	t.Cleanup(func() { readTimeout = timeout })
	var received atomic.Int32
	orders := serve(t, func(http.ResponseWriter, *http.Request) { received.Add(1) })
	bare := wanted
	bare.Source = ""
	orders.Add(fn, "1", bare, "", func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	})
	await(t, "the status says so", func() bool {
		return strings.HasPrefix(orders.Answers(fn)["1"].Trouble, "the source could not be read since ") &&
			strings.HasSuffix(orders.Answers(fn)["1"].Trouble, ": "+errNotRead.Error())
	})
	if n := received.Load(); n != 0 {
		t.Errorf("%d orders were sent", n)
	}
}

// While the service does not respond, sources are not read again for it. An order without a source shows
// that it responds again.
func TestUnanswered(t *testing.T) {
	var responds atomic.Bool
	var probes, loads atomic.Int32
	orders := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case !responds.Load():
			panic(http.ErrAbortHandler) // closes the connection
		case !strings.Contains(string(body), `"source"`):
			probes.Add(1)
			http.NotFound(w, r)
		default:
			buildapitest.Tell(w, buildapi.Event{Report: []byte(buildtest.Built)})
		}
	})
	orders.Add(fn, "1", wanted, "", func(context.Context) (string, error) {
		loads.Add(1)
		return wanted.Source, nil
	})
	await(t, "the status says so", func() bool {
		return strings.HasPrefix(orders.Answers(fn)["1"].Trouble, "the build service has been unavailable since ")
	})
	if n := loads.Load(); n != 0 {
		t.Errorf("the source was read %d times", n)
	}
	responds.Store(true)
	await(t, "the binary is known", func() bool { return orders.Answers(fn)["1"].Binary != nil })
	if loads.Load() != 1 || probes.Load() != 1 {
		t.Errorf("the source was read %d times after %d orders without it, want one each", loads.Load(), probes.Load())
	}
}

// An order that the service rejects is sent again with its source at once.
func TestRejectedIsNotProbed(t *testing.T) {
	var rejected, probes atomic.Int32
	orders := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case !strings.Contains(string(body), `"source"`):
			probes.Add(1)
		case rejected.Add(1) == 1:
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		buildapitest.Tell(w, buildapi.Event{Report: []byte(buildtest.Built)})
	})
	orders.Add(fn, "1", wanted, "", func(context.Context) (string, error) { return wanted.Source, nil })
	await(t, "the binary is known", func() bool { return orders.Answers(fn)["1"].Binary != nil })
	if n := probes.Load(); n != 0 {
		t.Errorf("%d orders were sent without a source", n)
	}
}

// The time in the status is not that of an order which the service accepted and lost later.
func TestAcceptedAndLost(t *testing.T) {
	var received atomic.Int32
	var lost atomic.Int64 // when the service was lost
	orders := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if received.Add(1) != 2 { // before and after the one that is accepted
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		buildapitest.Tell(w, buildapi.Event{Begun: true})
		time.Sleep(3 * time.Second) // more than the seconds by which the check below is inaccurate
		lost.Store(time.Now().UnixNano())
	})
	orders.Add(fn, "1", wanted, "", func(context.Context) (string, error) { return wanted.Source, nil })
	await(t, "the status says since when", func() bool {
		since, found := strings.CutPrefix(orders.Answers(fn)["1"].Trouble, "the build service has been unavailable since ")
		since, _, _ = strings.Cut(since, ": ")
		if !found || lost.Load() == 0 {
			return false
		}
		at, err := time.Parse(time.RFC3339, since)
		if err != nil || at.Add(2*time.Second).Before(time.Unix(0, lost.Load())) {
			t.Errorf("the service is said to be unavailable since %s, and was lost at %s", since, time.Unix(0, lost.Load()))
		}
		return true
	})
}

// An order that is queued in the service, or that the service rejects, needs little memory in the
// operator, however large its source is.
func TestOrdersDoNotKeepTheirSource(t *testing.T) {
	t.Run("Queued", func(t *testing.T) {
		measureOrders(t, func(w http.ResponseWriter, r *http.Request) {
			buildapitest.Tell(w, buildapi.Event{Waiting: true})
			<-r.Context().Done()
		})
	})
	t.Run("Rejected", func(t *testing.T) {
		measureOrders(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusTooManyRequests)
		})
	})
}

// measureOrders sends orders to a service that responds with respond, and fails if they need more
// memory than their sources.
func measureOrders(t *testing.T, respond http.HandlerFunc) {
	t.Helper()
	const count, size = 64, 240 << 10
	var received atomic.Int32
	orders := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		received.Add(1)
		respond(w, r)
	})
	before := heap()
	for i := range count {
		name := types.NamespacedName{Namespace: "team-" + strconv.Itoa(i%4), Name: strconv.Itoa(i)}
		load := func(context.Context) (string, error) { return strings.Repeat("<", size), nil } // 6 bytes each in JSON
		source, _ := load(t.Context())
		orders.Add(name, "1", buildapi.Order{Namespace: name.Namespace, Source: source}, "", load)
	}
	await(t, "the service has received all orders", func() bool { return received.Load() >= count })
	await(t, "the orders need less memory than their sources", func() bool { return heap()-before < count*size/2 })
}

// serve returns Orders for a server with a handler.
func serve(t *testing.T, handle http.HandlerFunc) *Orders {
	t.Helper()
	keys, err := buildapi.NewKeys(make([]byte, buildapi.SeedSize))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handle)
	if server.TLS, err = keys.ServerTLS(); err != nil {
		t.Fatal(err)
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	orders := New(&Service{last: &connection{url: server.URL, keys: keys, client: buildapi.NewClient(server.URL, keys)}})
	readChanged(t, orders)
	return orders
}

// heap returns the size of the objects on the heap that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // sync.Pool keeps its objects for one
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
