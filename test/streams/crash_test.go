package streams

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go/jetstream"
)

// memoryLimit is the memory limit of a trigger's pod. It must be sufficient for messages of 100
// KB in batches.
const memoryLimit = 256 << 20

// A process that replaces a killed one receives the same messages, and no more: its memory is
// bounded regardless of the number of waiting messages.
func TestNATSCrashMemory(t *testing.T) {
	t.Parallel() // it waits most of its time
	const messages, kills = 3000, 3
	server := newNATS(t, "")
	js := server.connect(t)
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("7"), 100_000)
	for i := range messages {
		if _, err := js.PublishAsync(fmt.Sprintf("orders.%d", i%100), data, jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	var takes atomic.Bool
	f := newFunction(t, func(cloudevents.Event, int) int {
		if takes.Load() {
			return http.StatusOK
		}
		return http.StatusInternalServerError
	})
	c := consume(t, f, server.stock("--batch=100")...)
	peak := 0
	for range kills {
		eventually(t, "it delivers", func() bool { return f.requested() > 16 })
		peak = max(peak, peakMemory(t, c.cmd.Process.Pid))
		c.end(syscall.SIGKILL)
		f.forgetRequests()
		c.begin()
	}
	eventually(t, "it delivers again", func() bool { return f.requested() > 16 })
	takes.Store(true)
	consumer, err := stream.Consumer(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "all are acknowledged", func() bool {
		info, err := consumer.Info(t.Context())
		return err == nil && info.NumPending == 0 && info.NumAckPending == 0
	})
	peak = max(peak, peakMemory(t, c.cmd.Process.Pid))
	t.Logf("the peak is %d MiB", peak>>20)
	if peak > memoryLimit {
		t.Errorf("the peak is %d MiB, want at most %d MiB", peak>>20, memoryLimit>>20)
	}
}

// More messages may be missing than a process holds, in another order than that of the stream,
// for example after an earlier release, or if two processes in a row were killed. They are
// delivered in order, and the memory is bounded.
func TestNATSBacklog(t *testing.T) {
	const messages, again, ackWait = 600, 200, 15 * time.Second
	server := newNATS(t, "")
	js := server.connect(t)
	ordersAgain(t, js, ackWait)
	stream, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	consumer, err := stream.UpdateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: "shop", FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: messages,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if _, err := js.PublishAsync(fmt.Sprintf("orders.%d", i%10), fmt.Appendf(nil, "%0100000d", i), jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	for _, n := range []int{messages, again} { // the messages of the second round come after the others
		fetch(t, consumer, n)
	}
	f := newFunction(t, ok)
	c := consume(t, f, server.stock()...)
	eventually(t, "all are accepted", func() bool { return distinct(f) == messages })
	inOrder(t, f.events())
	if peak := peakMemory(t, c.cmd.Process.Pid); peak > memoryLimit {
		t.Errorf("the peak is %d MiB, want at most %d MiB", peak>>20, memoryLimit>>20)
	} else {
		t.Logf("the peak is %d MiB", peak>>20)
	}
}

// fetch receives at least n messages and does not acknowledge them.
func fetch(t *testing.T, consumer jetstream.Consumer, n int) {
	t.Helper()
	for given := 0; given < n; {
		batch, err := consumer.Fetch(50, jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for range batch.Messages() {
			given++
		}
	}
}

// Without a stream, messages are lost when too many wait, but memory is bounded.
func TestNATSCoreMemory(t *testing.T) {
	const messages = 3000
	server := newNATS(t, "")
	js := server.connect(t)
	f := newFunction(t, ok)
	f.kill()
	c := consume(t, f, server.stock("--batch=100", "--stream=")...)
	eventually(t, "it is connected", func() bool { return c.healthy(t) })
	data := bytes.Repeat([]byte("7"), 100_000)
	for i := range messages {
		if err := js.Conn().Publish(fmt.Sprintf("orders.%d", i%100), data); err != nil {
			t.Fatal(err)
		}
	}
	if err := js.Conn().FlushTimeout(time.Minute); err != nil {
		t.Fatal(err)
	}
	var lag int64
	eventually(t, "no more messages arrive", func() bool {
		before := lag
		s := c.status(t)
		if s == nil || s.Lag == nil {
			return false
		}
		lag = *s.Lag
		return lag > 0 && lag == before
	})
	if peak := peakMemory(t, c.cmd.Process.Pid); peak > memoryLimit {
		t.Errorf("the peak is %d MiB with %d messages, want at most %d MiB", peak>>20, lag, memoryLimit>>20)
	} else {
		t.Logf("the peak is %d MiB with %d messages", peak>>20, lag)
	}
}

// requested returns the number of requests received.
func (f *function) requested() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests
}

func (f *function) forgetRequests() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = 0
}

// peakMemory returns the maximum resident set size of a process.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	kilobytes, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kilobytes << 10
}

// After a crash, newer messages wait for those that were delivered to the previous process. The
// status reports it if that takes long, and until when.
func TestNATSCrashReported(t *testing.T) {
	t.Parallel() // it takes more than a minute
	server := newNATS(t, "")
	js := server.connect(t)
	ordersAgain(t, js, time.Hour)
	f := newFunction(t, func(cloudevents.Event, int) int { return http.StatusInternalServerError })
	c := consume(t, f, server.stock()...)
	publish(t, js, "orders.7", "0")
	eventually(t, "the first is in flight to the function", func() bool { return f.tried() > 0 })
	c.restart(syscall.SIGKILL)
	publish(t, js, "orders.8", "1")
	expected := time.Now().Add(time.Hour).UTC().Format("2006-01-02T15")
	eventually(t, "it reports that it waits for a message", func() bool { return c.says(t, "Blocked", "1 message") && c.says(t, "Blocked", expected) })
}

// Only messages that were in flight to the function when a process received SIGTERM may be
// repeated, even if requests are slow.
func TestNATSEndSlow(t *testing.T) {
	const messages, concurrency = 60, 4
	server := newNATS(t, "")
	js := server.connect(t)
	orders(t, js)
	publishAll(t, js, messages, 20)
	f := newFunction(t, ok)
	slow := newSlowFunction(t, f, 300*time.Millisecond)
	c := consume(t, f, server.stock("--url=http://"+slow+"/in", "--drain=100ms", fmt.Sprintf("--concurrency=%d", concurrency))...)
	ends := 0
	for ; distinct(f) < messages/2; ends++ {
		enough := distinct(f) + 4
		eventually(t, "it delivers", func() bool { return distinct(f) > enough })
		c.restart(syscall.SIGTERM)
	}
	eventually(t, "all are accepted", func() bool { return distinct(f) == messages })
	if twice := len(f.events()) - messages; twice > ends*concurrency {
		t.Errorf("%d messages were accepted twice after %d exits, want no more than were in flight", twice, ends)
	}
	inOrder(t, f.events())
}

// newSlowFunction returns the address of a function that accepts an event immediately, and
// responds after a delay.
func newSlowFunction(t *testing.T, f *function, after time.Duration) string {
	t.Helper()
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.ServeHTTP(w, r)
		time.Sleep(after) // the answer is sent after that
	}))
	t.Cleanup(slow.Close)
	return strings.TrimPrefix(slow.URL, "http://")
}
