package kafkastream

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

// A function receives the records of produce and checks their order.
type function struct {
	t       *testing.T
	answer  func(key string, n int) int // the status of the response
	address string

	mu         sync.Mutex
	server     *http.Server
	ids        map[string]int // number of deliveries of each event
	last       map[string]int // by key: the largest number
	mistakes   []string
	progress   chan struct{} // contains an element after an event was accepted
	duplicates int
	requests   int
}

func newFunction(t *testing.T) *function {
	t.Helper()
	f := &function{t: t, address: "127.0.0.1:0", ids: map[string]int{}, last: map[string]int{}, progress: make(chan struct{}, 1)}
	f.answer = func(string, int) int { return http.StatusNoContent }
	f.start()
	t.Cleanup(f.kill)
	return f
}

func (f *function) url() string { return "http://" + f.address + "/" }

func (f *function) start() {
	f.t.Helper()
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		f.t.Fatal(err)
	}
	f.address = l.Addr().String()
	f.server = &http.Server{Handler: f}
	go f.server.Serve(l) //nolint:errcheck // it says that it was closed
}

// kill closes all connections, including those of requests in flight.
func (f *function) kill() { _ = f.server.Close() }

func (f *function) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	events, err := eventsOf(r)
	if err != nil {
		f.mistake("these are no CloudEvents: %v", err)
		return
	}
	f.mu.Lock()
	f.requests++
	f.mu.Unlock()
	code := 0
	numbers := make([]int, len(events))
	for i, e := range events {
		if numbers[i], err = strconv.Atoi(string(e.Data())); err != nil {
			f.mistake("the data is %q", e.Data())
		}
		if e.Extensions()["kafkapartition"] != events[0].Extensions()["kafkapartition"] {
			f.mistake("a batch has records of two partitions: %s and %s", events[0].ID(), e.ID())
		}
		code = max(code, f.answer(key(e), numbers[i]))
	}
	if code < 300 {
		for i, e := range events {
			f.take(e.ID(), key(e), numbers[i])
		}
	}
	w.WriteHeader(code)
	_, _ = io.Copy(io.Discard, r.Body)
}

// eventsOf returns the event or the events of a request.
func eventsOf(r *http.Request) ([]cloudevents.Event, error) {
	if cehttp.IsHTTPBatch(r.Header) {
		events, err := cehttp.NewEventsFromHTTPRequest(r)
		for _, e := range events {
			err = errors.Join(err, e.Validate())
		}
		return events, err
	}
	e, err := cehttp.NewEventFromHTTPRequest(r)
	if err != nil {
		return nil, err
	}
	return []cloudevents.Event{*e}, e.Validate()
}

func key(e cloudevents.Event) string { return fmt.Sprint(e.Extensions()["partitionkey"]) }

// take counts an event. The events of a key must arrive in order the first time.
func (f *function) take(id, key string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids[id]++
	if f.ids[id] > 1 {
		f.duplicates++
		return
	}
	if last, any := f.last[key]; any && n != last+1 || !any && n != 0 {
		f.mistakes = append(f.mistakes, fmt.Sprintf("of %s came %d after %d", key, n, last))
	}
	f.last[key] = n
	select {
	case f.progress <- struct{}{}:
	default:
	}
}

func (f *function) mistake(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mistakes = append(f.mistakes, fmt.Sprintf(format, args...))
}

func (f *function) taken() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ids)
}

// await waits until n events have been accepted.
func (f *function) await(n int) {
	f.t.Helper()
	deadline := time.After(2 * time.Minute)
	for f.taken() < n {
		select {
		case <-f.progress:
		case <-deadline:
			f.t.Fatalf("%d of %d events were taken; the last ones are %v", f.taken(), n, f.lasts())
		}
	}
}

func (f *function) lasts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, key := range slices.Sorted(maps.Keys(f.last)) {
		all = append(all, fmt.Sprintf("%s: %d", key, f.last[key]))
	}
	return all
}

// check fails on errors and on events that were delivered twice.
func (f *function) check() {
	f.t.Helper()
	f.checkTwice(0)
}

// checkTwice fails on errors and on more duplicates than allowed.
func (f *function) checkTwice(duplicates int) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.mistakes {
		f.t.Error(m)
	}
	f.t.Logf("%d duplicates of %d events, and %d may be", f.duplicates, len(f.ids), duplicates)
	if f.duplicates > duplicates {
		f.t.Errorf("%d duplicates, want %d at most", f.duplicates, duplicates)
	}
}

// counter returns the address of a function that counts its events, and the count.
func counter(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	taken := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		taken.Add(1)
	}))
	t.Cleanup(server.Close)
	return server.URL, taken
}
