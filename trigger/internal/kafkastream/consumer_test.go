package kafkastream

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kgo"

	"goless.io/trigger/internal/stream"
)

// Nothing is lost, and the order of each key is kept, while consumers, the function and the
// broker are killed. What is delivered twice was not committed when one of them was.
func TestKills(t *testing.T) {
	withBrokers(t, func(t *testing.T, b brokers) {
		const keys, partitions, kills = 40, 4, 8
		events := 4000
		if os.Getenv("FULL") != "" {
			events = 10_000
		}
		c, f := b.topic(t, partitions), newFunction(t)
		args := []string{
			f.url(), "--brokers=" + strings.Join(c.Brokers, ","), "--topic=" + c.Topic, "--group=" + c.Group, "--session-timeout=" + c.SessionTimeout.String(),
		}
		victims := []interface {
			kill()
			start()
		}{f, startProcess(t, "consumer", false, args...), startProcess(t, "consumer", false, args...)}
		if b.process != nil {
			victims = append(victims, b.process)
		}
		b.produce(t, c.Topic, events, keys)
		twice := 0
		for i := range kills {
			f.await((i + 1) * events / (kills + 2))
			victim := victims[rand.IntN(len(victims))]
			victim.kill()
			victim.start()
			if victim == f {
				twice += partitions // what it had, and has not answered
			} else {
				twice += partitions * (maxUncommitted + 1)
			}
		}
		f.await(events)
		f.check(twice)
	})
}

// While partitions go from one consumer to another nothing is lost or delivered twice.
func TestRebalance(t *testing.T) {
	withBrokers(t, func(t *testing.T, b brokers) {
		const events, keys, partitions = 2000, 40, 8
		c, f := b.topic(t, partitions), newFunction(t)
		_, first := start(t, c, f, "")
		b.produce(t, c.Topic, events, keys)
		f.await(events / 8)
		_, second := start(t, c, f, "")
		f.await(events / 2)
		first()
		f.await(events * 3 / 4)
		start(t, c, f, "")
		second()
		f.await(events)
		f.check(0)
	})
}

// What the function refuses is in the topic of dead letters, once and with the reason, and the
// rest is delivered.
func TestPoison(t *testing.T) {
	withBrokers(t, func(t *testing.T, b brokers) {
		const events, keys = 60, 3
		c, f := b.topic(t, 3), newFunction(t)
		f.answer = func(key string, n int) int {
			if key == "key-1" {
				return http.StatusUnprocessableEntity
			}
			return http.StatusOK
		}
		start(t, c, f, deadLetter(c.Topic))
		b.produce(t, c.Topic, events, keys)
		f.await(events * 2 / 3)
		letters := b.records(t, deadLetter(c.Topic), events/3)
		seen := map[string]bool{}
		for _, r := range letters {
			header := map[string]string{}
			for _, h := range r.Headers {
				header[h.Key] = string(h.Value)
			}
			if string(r.Key) != "key-1" || header[reasonHeader] != "the answer was 422 Unprocessable Entity" || !strings.HasPrefix(header[idHeader], c.Topic+"-") {
				t.Errorf("the record %s has the headers %v", r.Key, header)
			}
			seen[header[idHeader]] = true
		}
		if len(seen) != events/3 {
			t.Errorf("there are %d different dead letters, want %d", len(seen), events/3)
		}
		f.check(0)
	})
}

// A request has several records of a partition, in their order, while partitions go from one consumer
// to another; what it is answered is for all of them.
func TestBatches(t *testing.T) {
	withBrokers(t, func(t *testing.T, b brokers) {
		const events, keys, partitions, batch = 4000, 40, 4, 50
		c, f := b.topic(t, partitions), newFunction(t)
		var failed sync.Map
		f.answer = func(key string, n int) int {
			if _, again := failed.LoadOrStore(fmt.Sprint(key, n), true); !again && n%25 == 7 {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
		b.produce(t, c.Topic, events, keys)
		_, first := startBatches(t, c, f, "", batch)
		f.await(events / 4)
		startBatches(t, c, f, "", batch)
		f.await(events / 2)
		first()
		f.await(events)
		f.check(0)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.requests > events/2 || f.requests < events/batch {
			t.Errorf("%d records have come in %d requests", events, f.requests)
		}
	})
}

// A partition that is held up says so, holds up no other one, and goes on once the function
// takes the event.
func TestBlocked(t *testing.T) {
	withBrokers(t, func(t *testing.T, b brokers) {
		const events, keys = 4000, 20
		c, f := b.topic(t, 4), newFunction(t)
		blocked := make(chan struct{})
		f.answer = func(key string, n int) int {
			select {
			case <-blocked:
			default:
				if key == "key-0" && n == 2 {
					return http.StatusInternalServerError
				}
			}
			return http.StatusOK
		}
		monitor, _ := start(t, c, f, "")
		b.produce(t, c.Topic, events, keys)
		message := awaitProblem(t, monitor, stream.Blocked)
		if !strings.Contains(message, c.Topic) || !strings.Contains(message, "500 Internal Server Error") {
			t.Error(message)
		}
		f.await(events / 2) // the other partitions have more
		close(blocked)
		f.await(events)
		awaitProblem(t, monitor, "")
		f.check(0)
	})
}

// Partitions go to another consumer also while one that is blocked has the only place for requests.
func TestRebalanceWhileBlocked(t *testing.T) {
	withBrokers(t, func(t *testing.T, b brokers) {
		c, f := b.topic(t, 8), newFunction(t)
		var blocked sync.Once
		poison := make(chan string, 1)
		f.answer = func(key string, _ int) int {
			blocked.Do(func() { poison <- key })
			is := <-poison
			poison <- is
			if key == is {
				return http.StatusForbidden
			}
			return http.StatusOK
		}
		b.produce(t, c.Topic, 80, 40)
		d := newDeliverer(f.url(), slog.New(slog.NewTextHandler(t.Output(), nil)))
		d.Concurrency = 1
		run(t, c, d)
		awaitProblem(t, d.Monitor, stream.Blocked)
		if n := f.taken(); n > 0 {
			t.Fatalf("%d events were taken, and the first one should block", n)
		}
		start(t, c, f, "")
		// A minute later the brokers would not wait any more for the one that is blocked.
		for deadline := time.Now().Add(40 * time.Second); f.taken() == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no partition has gone to the other consumer")
			}
		}
	})
}

// start runs a consumer in this process until the end of the test, or until it is told to end.
func start(t *testing.T, c *Consumer, f *function, dead string) (*stream.Monitor, func()) {
	t.Helper()
	return startBatches(t, c, f, dead, 0)
}

// startBatches is the same with batches.
func startBatches(t *testing.T, c *Consumer, f *function, dead string, batch int) (*stream.Monitor, func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	d := newDeliverer(f.url(), log)
	d.DeadLetter, d.Batch = dead, batch
	return d.Monitor, run(t, c, d)
}

// run is the same with any deliverer.
func run(t *testing.T, c *Consumer, d *stream.Deliverer) func() {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := c.Run(ctx, d); err != nil {
			t.Error(err)
		}
	}()
	stop := func() {
		cancel()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// awaitProblem waits until there is a problem with a reason, or none for "", and returns its
// message.
func awaitProblem(t *testing.T, m *stream.Monitor, reason string) string {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		problems := m.Status().Problems
		if len(problems) == 0 && reason == "" {
			return ""
		}
		for _, p := range problems {
			if p.Reason == reason {
				return p.Message
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for the problem %q; there are %v", reason, problems)
		}
	}
}

// records reads n records of a topic, and fails where there are more.
func (b brokers) records(t *testing.T, topic string, n int) []*kgo.Record {
	t.Helper()
	client := b.client(t, kgo.ConsumeTopics(topic))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all []*kgo.Record
	for len(all) < n && ctx.Err() == nil {
		all = append(all, client.PollFetches(ctx).Records()...)
	}
	if diff := cmp.Diff(n, len(all)); diff != "" {
		t.Errorf("the records of %s (-want +got):\n%s", topic, diff)
	}
	return all
}
