package streams

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// The throughput beside a bare loop of the client library that posts to the same function. It is
// printed, and depends on the machine.
func TestNATSThroughput(t *testing.T) {
	if !*full {
		t.Skip("it measures: run it with -full, on a quiet machine")
	}
	if err := build(t.TempDir(), "bare", "..", "./streams/bare"); err != nil {
		t.Fatal(err)
	}
	const rounds = 3
	server := newNATS(t, "")
	js := server.connect(t)
	for concurrency, messages := range map[int]int{1: 10_000, 64: 30_000} {
		fill(t, js, messages)
		rates := map[string][]float64{}
		for round := range rounds {
			for _, name := range []string{"bare", "consume"} {
				rates[name] = append(rates[name], rate(t, server, js, name, fmt.Sprintf("%s-%d-%d", name, concurrency, round), concurrency, messages))
			}
		}
		bare, own := slices.Max(rates["bare"]), slices.Max(rates["consume"])
		t.Logf("%d in flight: %.0f messages a second, a bare loop %.0f: %.0f %% of it, the best of %d rounds", concurrency, own, bare, 100*own/bare, rounds)
	}
}

// fill makes a stream of messages of many subjects.
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

// rate is how many messages a second a program posts from the first to the last one.
func rate(t *testing.T, server *natsServer, js jetstream.JetStream, program, durable string, concurrency, messages int) float64 {
	t.Helper()
	_, err := js.CreateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{
		Durable: durable, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: max(2*concurrency, 16),
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
	defer p.end(syscall.SIGKILL)
	select {
	case d := <-took:
		return float64(messages-1) / d.Seconds()
	case <-t.Context().Done():
	case <-time.After(5 * time.Minute):
	}
	t.Fatalf("%s has posted %d of %d messages", program, posted.Load(), messages)
	return 0
}
