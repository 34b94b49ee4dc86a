package kafkastream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"goless.io/trigger/internal/stream"
)

// No record is lost, and the order of each key is kept, while consumers, the function and the
// broker are killed. Records that are delivered twice were not committed when one of them was
// killed.
func TestKills(t *testing.T) {
	withBrokers(t, func(t *testing.T, b brokers) {
		const keys, partitions, kills = 40, 4, 8
		events := 4000
		if os.Getenv("FULL") != "" {
			events = 10_000
		}
		c, f := b.topic(t, partitions), newFunction(t)
		c.SessionTimeout = b.shortest
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
				twice += partitions // events that it received and did not respond to
			} else {
				twice += partitions * (maxUncommitted + 1)
			}
		}
		f.await(events)
		f.checkTwice(twice)
	})
}

// Committed records are not delivered again after a crash.
func TestKillAfterCommit(t *testing.T) {
	withBrokers(t, func(t *testing.T, b brokers) {
		const events, keys = 500, 20
		c, f := b.topic(t, 4), newFunction(t)
		consumer := startProcess(t, "consumer", false, f.url(),
			"--brokers="+strings.Join(c.Brokers, ","), "--topic="+c.Topic, "--group="+c.Group, "--session-timeout="+c.SessionTimeout.String())
		b.produce(t, c.Topic, events, keys)
		f.await(events)
		b.awaitCommits(t, c)
		consumer.kill()
		b.expel(t, c)
		consumer.start()
		b.produceFrom(t, c.Topic, events, 2*events, keys)
		f.await(2 * events)
		f.check()
	})
}

// Records of an aborted transaction are not delivered. No transaction leaves a lag: neither its
// records nor its control records.
func TestTransactions(t *testing.T) {
	withBrokers(t, func(t *testing.T, b brokers) {
		c, f := b.topic(t, 1), newFunction(t)
		b.transact(t, c, kgo.TryCommit, kgo.TryAbort, kgo.TryCommit, kgo.TryAbort)
		monitor, _ := start(t, c, f, "")
		f.await(2)
		b.awaitCommits(t, c)
		awaitNoLag(t, monitor)
		if n := monitor.Status().Partitions; n != 1 {
			t.Errorf("the topic has %d partitions, want 1", n)
		}
		f.check()
		if diff := cmp.Diff([]string{"key-0: 0", "key-2: 0"}, f.lasts()); diff != "" {
			t.Errorf("what was delivered (-want +got):\n%s", diff)
		}
	})
}

// transact writes one record in each of several transactions.
func (b brokers) transact(t *testing.T, c *Consumer, ends ...kgo.TransactionEndTry) {
	t.Helper()
	client := b.client(t, kgo.TransactionalID(c.Group), kgo.DefaultProduceTopic(c.Topic))
	for i, end := range ends {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		record := &kgo.Record{Key: fmt.Append(nil, "key-", i), Value: []byte("0")}
		err := client.ProduceSync(t.Context(), record).FirstErr()
		if err = errors.Join(err, client.EndTransaction(t.Context(), end)); err != nil {
			t.Fatal(err)
		}
	}
}

func awaitNoLag(t *testing.T, m *stream.Monitor) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		lag := m.Status().Lag
		if lag != nil && *lag == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the lag is %v, want 0", lag)
		}
	}
}

// A consumer whose session has expired cancels the request of a record, immediately, before it
// receives that record again. Drain applies only to requests whose partition it still owns.
func TestLostSession(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	b := brokers{addresses: cluster.ListenAddrs()}
	b.produce(t, "orders", 1, 1)
	requests := make(chan int, 100) // number of concurrent requests
	end := make(chan struct{})
	var running atomic.Int32
	function := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that the client has disconnected
		requests <- int(running.Add(1))
		defer running.Add(-1)
		select {
		case <-r.Context().Done():
		case <-end:
		}
	}))
	defer close(end)
	t.Cleanup(function.Close)
	d := newDeliverer(function.URL, slog.New(slog.NewTextHandler(t.Output(), nil)))
	d.Drain = time.Hour
	run(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}, d)
	<-requests
	cluster.ControlKey(int16(kmsg.Heartbeat), func(request kmsg.Request) (kmsg.Response, error, bool) {
		answer := request.ResponseKind().(*kmsg.HeartbeatResponse)
		answer.Version, answer.ErrorCode = request.GetVersion(), kerr.UnknownMemberID.Code
		return answer, nil, true
	})
	select {
	case n := <-requests:
		if n > 1 {
			t.Errorf("the record is in %d requests at the same time", n)
		}
	case <-time.After(time.Minute):
		t.Error("the request of a partition that was lost has not ended")
	}
}

// An error of a fetch is reported only until it is clear that no more errors occur, even if no
// record arrives.
func TestErrorOnQuietTopic(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	var allowed atomic.Bool
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := request.(*kmsg.FetchRequest)
		if len(asked.Topics) == 0 || allowed.Load() {
			return nil, nil, false
		}
		answer := request.ResponseKind().(*kmsg.FetchResponse)
		answer.Version = request.GetVersion()
		for _, topic := range asked.Topics {
			refused := kmsg.FetchResponseTopic{Topic: topic.Topic, TopicID: topic.TopicID}
			for _, p := range topic.Partitions {
				failed := kmsg.NewFetchResponseTopicPartition()
				failed.Partition, failed.ErrorCode = p.Partition, kerr.TopicAuthorizationFailed.Code
				refused.Partitions = append(refused.Partitions, failed)
			}
			answer.Topics = append(answer.Topics, refused)
		}
		return answer, nil, true
	})
	monitor, _ := start(t, &Consumer{Brokers: cluster.ListenAddrs(), Topic: "orders", Group: "shop", SessionTimeout: session}, newFunction(t), "")
	awaitMessage(t, monitor, "TOPIC_AUTHORIZATION_FAILED")
	allowed.Store(true)
	awaitProblem(t, monitor, "")
}

// No record is lost or delivered twice while partitions move from one consumer to another.
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
		f.check()
	})
}

// Events that the function rejects are in the dead-letter topic once, with the reason. The others
// are delivered.
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
			if string(r.Key) != "key-1" || header[reasonHeader] != "the response was 422 Unprocessable Entity" || !strings.HasPrefix(header[idHeader], c.Topic+"-") {
				t.Errorf("the record %s has the headers %v", r.Key, header)
			}
			seen[header[idHeader]] = true
		}
		if len(seen) != events/3 {
			t.Errorf("there are %d different dead letters, want %d", len(seen), events/3)
		}
		f.check()
	})
}

// A request contains several records of a partition, in order, while partitions move from one
// consumer to another. The response applies to all of them.
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
		f.check()
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.requests > events/2 || f.requests < events/batch {
			t.Errorf("%d records have come in %d requests", events, f.requests)
		}
	})
}

// A blocked partition is reported, does not block other partitions, and continues once the function
// accepts the event.
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
		f.check()
	})
}

// Partitions move to another consumer even while a blocked one occupies the only slot for requests.
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
		// A minute later, the brokers would no longer wait for the blocked one.
		for deadline := time.Now().Add(40 * time.Second); f.taken() == 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no partition has gone to the other consumer")
			}
		}
	})
}

// start runs a consumer in this process until the end of the test, or until the returned function
// is called.
func start(t *testing.T, c *Consumer, f *function, dead string) (*stream.Monitor, func()) {
	t.Helper()
	return startBatches(t, c, f, dead, 0)
}

// startBatches is start with batches.
func startBatches(t *testing.T, c *Consumer, f *function, dead string, batch int) (*stream.Monitor, func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	d := newDeliverer(f.url(), log)
	d.DeadLetter, d.Batch = dead, batch
	return d.Monitor, run(t, c, d)
}

// run is start with any Deliverer.
func run(t *testing.T, c *Consumer, d *stream.Deliverer) func() {
	t.Helper()
	lively := *c
	lively.heartbeat = 200 * time.Millisecond // so that it soon notices a rebalance
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := lively.Run(ctx, d); err != nil {
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

// awaitProblem waits for a problem with a reason, or for no problem if it is "", and returns its
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

// awaitCommits waits until the group has committed all records of its topic.
func (b brokers) awaitCommits(t *testing.T, c *Consumer) {
	t.Helper()
	admin := kadm.NewClient(b.client(t))
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		lags, err := admin.Lag(t.Context(), c.Group)
		group := lags[c.Group]
		if err = errors.Join(err, group.Error()); err == nil && len(group.Lag) > 0 && group.Lag.Total() == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the group lags %d records behind; error: %v", group.Lag.Total(), err)
		}
	}
}

// expel removes all members from the group, as if their sessions had expired.
func (b brokers) expel(t *testing.T, c *Consumer) {
	t.Helper()
	client := b.client(t)
	groups, err := kadm.NewClient(client).DescribeGroups(t.Context(), c.Group)
	request := kmsg.NewPtrLeaveGroupRequest()
	request.Group = c.Group
	for _, m := range groups[c.Group].Members {
		request.Members = append(request.Members, kmsg.LeaveGroupRequestMember{MemberID: m.MemberID})
	}
	if err == nil {
		_, err = request.RequestWith(t.Context(), client)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// records reads n records of a topic and fails if there are more.
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
