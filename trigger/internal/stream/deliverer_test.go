package stream_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

// message is a message that the dead-letter destination rejects a number of times.
type message struct {
	id       string
	refusals int
	reasons  []string
}

func (m *message) Event() delivery.Event {
	return delivery.Event{ID: cmp.Or(m.id, "orders/7"), Source: "/test", Type: "test", Data: []byte("7")}
}

func (m *message) DeadLetter(_ context.Context, reason string) error {
	if m.refusals--; m.refusals >= 0 {
		return errors.New("no space left")
	}
	m.reasons = append(m.reasons, reason)
	return nil
}

// function returns the given status codes in order, and the last one indefinitely.
type function struct {
	codes  []int  // a negative one is rejected before the handler
	after  string // the header Retry-After; "" for none
	calls  atomic.Int32
	bodies []string
}

func (f *function) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	f.bodies = append(f.bodies, string(body))
	code := f.codes[min(int(f.calls.Add(1)), len(f.codes))-1]
	header := http.Header{}
	if f.after != "" {
		header.Set("Retry-After", f.after)
	}
	if code < 0 {
		code = -code
		header.Set(delivery.RejectedHeader, "concurrency")
	}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(""))}, nil
}

func deliverer(t *testing.T, f http.RoundTripper) *stream.Deliverer {
	return &stream.Deliverer{
		URL: "http://function.example/", Drain: time.Second, Monitor: stream.NewMonitor("v1.2.3", "0123"),
		Sender: delivery.Sender{Client: &http.Client{Transport: f}, Backoff: delivery.DefaultBackoff, Tries: 3, Log: slog.New(slog.NewTextHandler(t.Output(), nil))},
	}
}

// The contract: the outcome of an event and the number of requests. It runs in a synctest bubble,
// where delays take no time.
func TestDeliver(t *testing.T) {
	for name, test := range map[string]struct {
		codes    []int
		refusals int // number of rejections by the dead-letter destination
		edit     func(*stream.Deliverer)
		calls    int32
		outcome  string
		reasons  []string
	}{
		"Taken":         {codes: []int{200}, calls: 1, outcome: "delivered"},
		"TakenAtLast":   {codes: []int{500, 429, 200}, calls: 3, outcome: "delivered"},
		"BusyForLong":   {codes: append(slices.Repeat([]int{-503}, 100), 200), calls: 101, outcome: "delivered"},
		"Blocked":       {codes: []int{500, 500, 500, 500, 500, 200}, calls: 6, outcome: "delivered"},
		"RefusedBlocks": {codes: []int{400, 400, 200}, calls: 3, outcome: "delivered"},
		"Dropped":       {codes: []int{500}, edit: func(d *stream.Deliverer) { d.Drop = true }, calls: 3, outcome: "dropped"},
		"Poison": {codes: []int{400}, edit: toDeadLetter, calls: 1, outcome: "dead_letter", reasons: []string{
			"the response was 400 Bad Request",
		}},
		"Exhausted": {codes: []int{500}, edit: toDeadLetter, calls: 3, outcome: "dead_letter", reasons: []string{
			"3 attempts failed, the last one: the response was 500 Internal Server Error",
		}},
		"DeadLetterDown": {codes: []int{400}, refusals: 5, edit: toDeadLetter, calls: 1, outcome: "dead_letter", reasons: []string{
			"the response was 400 Bad Request",
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			f, m := &function{codes: test.codes}, &message{refusals: test.refusals}
			d := deliverer(t, f)
			if test.edit != nil {
				test.edit(d)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour) // of the bubble
			defer cancel()
			if !d.Deliver(ctx, m) {
				t.Error("it may not be acknowledged after a day")
			}
			one := metric(t, d.Monitor, `goless_trigger_events_total{outcome="`+test.outcome+`"}`)
			status := d.Monitor.Status()
			got := []any{f.calls.Load(), m.reasons, one, status.Problems[0].Reason, len(status.Problems), status.Last}
			last := &stream.Last{Outcome: stream.Outcome(test.outcome), Time: time.Now()}
			if diff := gocmp.Diff([]any{test.calls, test.reasons, "1", stream.NotConnected, 1, last}, got); diff != "" {
				t.Errorf("calls, what the dead letter has, the count of the outcome, problems, and the last outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// inBubble runs a test in a synctest bubble, where waiting takes no time.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func toDeadLetter(d *stream.Deliverer) { d.DeadLetter = "orders.dead" }

// A blocked event is reported with the reason while it is blocked.
func TestHeldUp(t *testing.T) {
	for name, test := range map[string]struct {
		code  int
		after string // the header Retry-After
		edit  func(*stream.Deliverer)
		calls int32 // in one hour
		want  stream.Problem
	}{
		// About once a minute or slightly more often, without a busy loop.
		"Blocked": {400, "", func(*stream.Deliverer) {}, 130, stream.Problem{
			Reason: stream.Blocked, Message: "the function does not accept event orders/7, and later events wait: the response was 400 Bad Request",
		}},
		"BlockedUntil": {500, "1200", func(d *stream.Deliverer) { d.Sender.Tries = 1 }, 4, stream.Problem{
			Reason: stream.Blocked, Message: "the function does not accept event orders/7, and later events wait: the response was 500 Internal Server Error",
		}},
		// The function never has capacity for the event. Pauses last at most five seconds.
		"Busy": {-503, "", func(*stream.Deliverer) {}, 1500, stream.Problem{
			Reason: stream.Blocked, Message: "the function has not received event orders/7 for more than a minute, and later events wait: the response was 503 Service Unavailable",
		}},
		"DeadLetter": {400, "", toDeadLetter, 1, stream.Problem{
			Reason: stream.DeadLetterFailed, Message: "the dead letter orders.dead did not accept event orders/7, and later events wait: no space left",
		}},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := &function{codes: []int{test.code}, after: test.after}
			d := deliverer(t, f)
			test.edit(d)
			d.Monitor.Solved("")
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan bool)
			go func() { ended <- d.Deliver(ctx, &message{refusals: 1 << 30}) }()
			time.Sleep(time.Hour) // of the bubble
			if diff := gocmp.Diff([]stream.Problem{test.want}, d.Monitor.Status().Problems); diff != "" {
				t.Errorf("the problems (-want +got):\n%s", diff)
			}
			if code, body := get(d.Monitor, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, test.want.Message) {
				t.Errorf("/readyz is %d: %s", code, body)
			}
			if calls := f.calls.Load(); calls > test.calls {
				t.Errorf("%d calls in an hour, want %d at most", calls, test.calls)
			}
			cancel()
			if taken := <-ended; taken || len(d.Monitor.Status().Problems) > 0 {
				t.Errorf("after the end, taken is %t, and what is not tried any more is told: %v", taken, d.Monitor.Status().Problems)
			}
		})
	}
}

// The response to a batch applies to all of its events: they are retried together, and each is in
// the dead-letter destination exactly once, even if some of them are rejected for a while.
func TestBatch(t *testing.T) {
	for name, test := range map[string]struct {
		codes   []int
		edit    func(*stream.Deliverer)
		calls   int32
		outcome string
		reason  string // "" if the dead-letter destination has none
	}{
		"Taken":   {codes: []int{500, 200}, calls: 2, outcome: "delivered"},
		"Blocked": {codes: []int{400, 400, 200}, calls: 3, outcome: "delivered"},
		"Dropped": {codes: []int{400}, edit: func(d *stream.Deliverer) { d.Drop = true }, calls: 1, outcome: "dropped"},
		"Poison":  {codes: []int{400}, edit: toDeadLetter, calls: 1, outcome: "dead_letter", reason: "the response was 400 Bad Request"},
	} {
		inBubble(t, name, func(t *testing.T) {
			f := &function{codes: test.codes}
			d := deliverer(t, f)
			d.Batch = 10
			if test.edit != nil {
				test.edit(d)
			}
			messages := []*message{{id: "orders/7", refusals: 2}, {id: "orders/8", refusals: 1}, {id: "orders/9"}}
			if !d.Deliver(t.Context(), messages[0], messages[1], messages[2]) {
				t.Error("they may not be acknowledged")
			}
			checkReasons(t, messages, test.reason)
			if calls, n := f.calls.Load(), metric(t, d.Monitor, `goless_trigger_events_total{outcome="`+test.outcome+`"}`); calls != test.calls || n != "3" {
				t.Errorf("%d calls, want %d; %s events are %s, want 3", calls, test.calls, n, test.outcome)
			}
			if slices.ContainsFunc(f.bodies, func(body string) bool { return strings.Count(body, `"specversion"`) != 3 }) {
				t.Errorf("a request has not the three events: %s", f.bodies)
			}
		})
	}
}

// checkReasons checks that the dead-letter destination contains each message once, with the reason
// want; "" means not at all.
func checkReasons(t *testing.T, messages []*message, want string) {
	t.Helper()
	for _, m := range messages {
		if got := strings.Join(m.reasons, "; "); got != want {
			t.Errorf("the dead letter has %s for %q, want %q", m.id, got, want)
		}
	}
}

// A request in flight can finish when the process is stopped.
func TestDrain(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(asked)
		<-answer
	}))
	defer server.Close()
	d := deliverer(t, http.DefaultTransport)
	d.URL, d.Drain = server.URL, time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { ended <- d.Deliver(ctx, &message{}) }()
	<-asked
	cancel()
	close(answer)
	if !<-ended {
		t.Error("an event that was taken is delivered again")
	}
	if d.Deliver(ctx, &message{}) {
		t.Error("an event was taken after the end")
	}
}

// During an outage of one hour, each event is retried now and then, and none is dropped.
func TestOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &function{codes: []int{503}}
		d := deliverer(t, f)
		d.Sender.Tries = 10
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if d.Deliver(ctx, &message{}) {
			t.Error("it may be acknowledged")
		}
		if calls := f.calls.Load(); calls < 60 || calls > 140 {
			t.Errorf("%d calls in an hour, want one a minute or a little more", calls)
		}
	})
}

// The readiness probe does not query the servers for the lag.
func TestReadyAsksForNoLag(t *testing.T) {
	m := stream.NewMonitor("v1.2.3", "0123")
	m.Solved("")
	asked := 0
	m.Lag(func() (int64, bool) { asked++; return 7, true })
	if code, _ := get(m, "/readyz"); code != http.StatusOK || asked > 0 {
		t.Errorf("/readyz is %d, and has asked for the lag %d times", code, asked)
	}
	if _, body := get(m, "/status"); strings.TrimSpace(body) != `{"lag":7}` || asked != 1 {
		t.Errorf("/status is %s", body)
	}
}

// The metrics contain the version of the release.
func TestVersion(t *testing.T) {
	want := `goless_trigger_build_info{commit="0123",go_version="` + runtime.Version() + `",version="v1.2.3"}`
	if got := metric(t, stream.NewMonitor("v1.2.3", "0123"), want); got != "1" {
		t.Errorf("%s is %s, want 1", want, got)
	}
}

func metric(t *testing.T, m *stream.Monitor, series string) string {
	t.Helper()
	_, body := get(m, "/metrics")
	for line := range strings.Lines(body) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			return value
		}
	}
	return "missing"
}

func get(m *stream.Monitor, path string) (int, string) {
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}
