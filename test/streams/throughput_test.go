package streams

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestNATSThroughput compares the throughput and the processor time with those of a loop that
// uses only the client library and posts to the same function. They are printed, and depend on
// the machine.
func TestNATSThroughput(t *testing.T) {
	if !*full {
		t.Skip("this is a benchmark; run it with -full on an idle machine")
	}
	if err := build(t.TempDir(), "bare", "..", "./streams/bare"); err != nil {
		t.Fatal(err)
	}
	const rounds = 3
	server := newNATS(t, "")
	js := server.connect(t)
	for _, load := range []struct{ concurrency, messages int }{{1, 5_000}, {64, 20_000}} {
		fill(t, js, load.messages)
		best := map[string]figures{}
		for round := range rounds {
			for _, program := range []string{"bare", "consume"} {
				now := measure(t, server, js, program, fmt.Sprintf("%s-%d-%d", program, load.concurrency, round), load.concurrency, load.messages)
				if was, ok := best[program]; ok {
					now = figures{max(was.rate, now.rate), min(was.processor, now.processor)}
				}
				best[program] = now
			}
		}
		own, bare := best["consume"], best["bare"]
		t.Logf("%d in flight: %.0f messages per second with %s of processor time each, and a bare loop %.0f with %s: %.0f %% of its throughput, the best of %d rounds",
			load.concurrency, own.rate, own.processor, bare.rate, bare.processor, 100*own.rate/bare.rate, rounds)
	}
}

// figures are the measurements of a program.
type figures struct {
	rate      float64       // messages a second
	processor time.Duration // the time of processors for each
}

// fill creates a stream of messages of many subjects.
func fill(t *testing.T, js jetstream.JetStream, messages int) {
	t.Helper()
	_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.Stream(t.Context(), "ORDERS")
	if err == nil {
		err = stream.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	publishAll(t, js, messages, 1000)
}

// measure lets a program post all messages, and measures the time from the first to the last
// one.
func measure(t *testing.T, server *natsServer, js jetstream.JetStream, program, durable string, concurrency, messages int) figures {
	t.Helper()
	_, err := js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{
		Durable: durable, FilterSubject: "orders.>", AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: max(2*concurrency, 16),
	})
	if err != nil {
		t.Fatal(err)
	}
	var posted atomic.Int64
	var first time.Time
	took := make(chan time.Duration, 1)
	f := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		switch posted.Add(1) {
		case 1:
			first = time.Now()
		case int64(messages):
			took <- time.Since(first)
		}
	}))
	defer f.Close()
	args := []string{"--servers=" + server.url, "--stream=ORDERS", "--consumer=" + durable, "--url=" + f.URL, fmt.Sprintf("--concurrency=%d", concurrency)}
	if program == "consume" {
		args = append([]string{"nats", "--admin=127.0.0.1:0", "--source=/test", "--subject=orders.>"}, args...)
	}
	p := start(t, program, args...)
	select {
	case d := <-took:
		p.end(syscall.SIGKILL)
		used := p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
		return figures{float64(messages-1) / d.Seconds(), used / time.Duration(messages)}
	case <-time.After(5 * time.Minute):
		t.Fatalf("%s has posted %d of %d messages", program, posted.Load(), messages)
		return figures{}
	}
}
