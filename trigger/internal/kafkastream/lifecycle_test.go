package kafkastream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A topic that is deleted and recreated under load is still consumed, and its events have other IDs
// than those of the deleted topic.
func TestRecreatedTopic(t *testing.T) {
	t.Parallel()
	const rounds, events = 6, 200
	cluster, f := newCluster(t), newFunction(t)
	b := brokers{addresses: cluster.ListenAddrs()}
	var taken [rounds]atomic.Int64
	f.answer = func(key string, _ int) int {
		if strings.HasPrefix(key, "load") {
			return http.StatusOK
		}
		var round, n int
		if _, err := fmt.Sscanf(key, "round-%d-%d", &round, &n); err != nil {
			t.Error(err)
		}
		taken[round].Add(1)
		return http.StatusOK
	}
	start(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}, f, "")
	load(t, b.client(t), "orders")
	for round := range rounds {
		client := b.client(t)
		for n := range events {
			record := &kgo.Record{Topic: "orders", Key: fmt.Appendf(nil, "round-%d-%d", round, n), Value: []byte("0")}
			if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		want := int64(events / 2)
		if round == rounds-1 {
			want = events
		}
		await(t, fmt.Sprintf("%d events of round %d", want, round), func() bool { return taken[round].Load() >= want })
		if round < rounds-1 {
			recreate(t, cluster, "orders")
		}
	}
	f.check()
}

// load produces records to a topic until the test ends, also while the topic is deleted. Errors are
// expected then.
func load(t *testing.T, client *kgo.Client, topic string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var producing sync.WaitGroup
	producing.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			record := &kgo.Record{Topic: topic, Key: fmt.Appendf(nil, "load-%d", n), Value: []byte("0")}
			client.Produce(ctx, record, nil)
			select {
			case <-time.After(2 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() { cancel(); producing.Wait() })
}

// Dead letters continue after their topic was deleted and recreated, and none is missing.
func TestRecreatedDeadLetter(t *testing.T) {
	t.Parallel()
	cluster, f := newCluster(t), newFunction(t)
	b := brokers{addresses: cluster.ListenAddrs()}
	f.answer = func(string, int) int { return http.StatusBadRequest }
	start(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}, f, "orders.dead")
	for round := range 5 {
		b.produceFrom(t, "orders", 3*round, 3*round+3, 1)
		b.records(t, "orders.dead", 3)
		recreate(t, cluster, "orders.dead")
	}
}

// recreate deletes and recreates a topic of one partition.
func recreate(t *testing.T, cluster *kfake.Cluster, topic string) {
	t.Helper()
	if err := cluster.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	if err := cluster.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
}

// await waits until a condition is true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("timed out waiting for", what)
		}
	}
}

// A committed offset beyond the end of its partition is reported as a problem, and the lag is not
// negative.
func TestCommittedPastEnd(t *testing.T) {
	t.Parallel()
	cluster, f := newCluster(t), newFunction(t)
	b := brokers{addresses: cluster.ListenAddrs()}
	b.produce(t, "orders", 5, 1)
	admin := kadm.NewClient(b.client(t))
	var offsets kadm.Offsets
	offsets.AddOffset("orders", 0, 100, -1)
	if err := admin.CommitAllOffsets(t.Context(), "shop", offsets); err != nil {
		t.Fatal(err)
	}
	f.answer = func(string, int) int { return http.StatusInternalServerError }
	monitor, _ := start(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}, f, "")
	awaitMessage(t, monitor, "group shop has committed offset 100 of partition 0 of topic orders, which ends at 5")
	if lag := monitor.Status().Lag; lag == nil || *lag != 0 {
		t.Errorf("the lag is %v, want 0", lag)
	}
}

// An offset that was committed for a deleted topic of the same name is not used: no record of the
// new topic is skipped.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	cluster, f := newCluster(t), newFunction(t)
	b := brokers{addresses: cluster.ListenAddrs()}
	c := &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}
	b.produce(t, "orders", 5, 1)
	admin := kadm.NewClient(b.client(t))
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "orders", At: 3, LeaderEpoch: -1, Metadata: c.owner(encode([16]byte{1}))})
	if err := admin.CommitAllOffsets(t.Context(), "shop", offsets); err != nil {
		t.Fatal(err)
	}
	_, stop := start(t, c, f, "")
	f.await(5)
	b.awaitCommitted(t, c, 5)
	stop()
	start(t, c, f, "")
	b.produceFrom(t, "orders", 5, 6, 1)
	f.await(6)
	f.check()
}

// A consumer that terminates while a request takes longer than its session stays a member until the
// request has a response. Records that are delivered meanwhile are committed and not delivered
// twice.
func TestEndWhileSlow(t *testing.T) {
	const partitions, events = 4, 40
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := brokers{addresses: cluster.ListenAddrs()}
	c := &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}
	f := newFunction(t)
	var slow, ending atomic.Bool
	arrived, heartbeats := make(chan struct{}), make(chan struct{}, 100)
	cluster.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if ending.Load() {
			tell(heartbeats)
		}
		return nil, nil, false
	})
	f.answer = func(string, int) int {
		if slow.Swap(true) {
			return http.StatusOK
		}
		close(arrived)
		for n := range 8 { // by default, a session has five
			select {
			case <-heartbeats:
			case <-time.After(30 * time.Second):
				t.Errorf("%d heartbeats were sent while it ended, want more", n)
				return http.StatusOK
			}
		}
		return http.StatusOK
	}
	b.produce(t, "orders", events, events)
	_, stop := start(t, c, f, "")
	<-arrived
	f.await(1)
	ending.Store(true)
	stop()
	before := f.taken()
	b.awaitCommitted(t, c, int64(before))
	start(t, c, f, "")
	f.await(events)
	f.check()
}

// A partition that cannot be fetched is named in the problem and does not slow down the others.
func TestBrokenPartition(t *testing.T) {
	t.Parallel()
	const rounds = 200
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b := brokers{addresses: cluster.ListenAddrs()}
	broken := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "orders", Partitions: []int32{1}, Err: kerr.UnknownServerError, Count: -1})
	f := newFunction(t)
	monitor, _ := start(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}, f, "")
	awaitMessage(t, monitor, "partition 1 of topic orders cannot be consumed: UNKNOWN_SERVER_ERROR")
	client := b.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	ctx, cancel := context.WithTimeout(t.Context(), rounds*time.Second/2)
	defer cancel()
	for n := range rounds {
		record := &kgo.Record{Topic: "orders", Key: []byte("key-0"), Value: fmt.Append(nil, n)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			t.Fatal(err)
		}
		for f.taken() < n+1 {
			if ctx.Err() != nil {
				t.Fatalf("%d events were delivered in %s", f.taken(), rounds*time.Second/2)
			}
			time.Sleep(time.Millisecond)
		}
	}
	broken.Remove()
	awaitProblem(t, monitor, "")
}

// A member with another assignment strategy, such as the default of librdkafka, Sarama and
// kafka-python, shares the group.
func TestForeignMember(t *testing.T) {
	t.Parallel()
	for name, balancers := range map[string][]kgo.GroupBalancer{
		"Sarama":     {kgo.RangeBalancer()},
		"Librdkafka": {kgo.RangeBalancer(), kgo.RoundRobinBalancer()},
		"RoundRobin": {kgo.RoundRobinBalancer()},
		"Java":       {kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkForeignMember(t, balancers)
		})
	}
}

// checkForeignMember adds a member with these strategies to the group, which receives a part of the
// events.
func checkForeignMember(t *testing.T, balancers []kgo.GroupBalancer) {
	t.Helper()
	const partitions, events = 8, 400
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "orders"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	b, f := brokers{addresses: cluster.ListenAddrs()}, newFunction(t)
	other := b.client(t, kgo.ConsumerGroup("shop"), kgo.ConsumeTopics("orders"), kgo.Balancers(balancers...))
	theirs := make(chan int, events)
	go func() {
		for ctx := t.Context(); ctx.Err() == nil; {
			theirs <- other.PollFetches(ctx).NumRecords()
		}
	}()
	start(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: "shop", SessionTimeout: session}, f, "")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := cluster.WaitGroupStable(ctx, "shop", 2); err != nil {
		t.Fatal(err)
	}
	b.produce(t, "orders", events, 40)
	n := 0
	await(t, "all events", func() bool {
		for len(theirs) > 0 {
			n += <-theirs
		}
		return n+f.taken() >= events
	})
	if n == 0 || f.taken() == 0 {
		t.Errorf("the other member has %d events, and the function has %d", n, f.taken())
	}
	f.check()
}

// Commits run one at a time, and each reads the offsets when it begins.
func TestCommitOrder(t *testing.T) {
	t.Parallel()
	m := &member{}
	begun, end, second := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go m.commit(t.Context(), func() []*partition { close(begun); <-end; return nil }) //nolint:errcheck // there is nothing to commit
	<-begun
	go m.commit(t.Context(), func() []*partition { close(second); return nil }) //nolint:errcheck // there is nothing to commit
	select {
	case <-second:
		t.Error("a commit reads offsets while another one has not ended")
	case <-time.After(50 * time.Millisecond):
	}
	close(end)
	<-second
}

// The process joins the group that has committed offsets of the topic.
func TestFormerGroup(t *testing.T) {
	t.Parallel()
	const group, former = "goless_shop_eu-orders", "goless-shop-eu-orders"
	for name, test := range map[string]struct {
		commits map[string]string // by group: the metadata of its commit
		topic   string
		want    string
	}{
		"None":         {nil, "orders", group},
		"Former":       {map[string]string{former: "goless-0b1c"}, "orders", former},
		"FormerOurs":   {map[string]string{former: group}, "orders", former},
		"FormerOthers": {map[string]string{former: "goless_shop-eu_orders"}, "orders", group},
		"OtherTopic":   {map[string]string{former: "goless-0b1c"}, "orders.dead", group},
		"Both":         {map[string]string{former: "goless-0b1c", group: group}, "orders", group},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := newCluster(t)
			b := brokers{addresses: cluster.ListenAddrs()}
			admin := kadm.NewClient(b.client(t))
			for group, metadata := range test.commits {
				var offsets kadm.Offsets
				offsets.Add(kadm.Offset{Topic: test.topic, At: 1, LeaderEpoch: -1, Metadata: metadata})
				if err := admin.CommitAllOffsets(t.Context(), group, offsets); err != nil {
					t.Fatal(err)
				}
			}
			f := newFunction(t)
			monitor, _ := start(t, &Consumer{Brokers: b.addresses, Topic: "orders", Group: group, FormerGroup: former, SessionTimeout: session}, f, "")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := cluster.WaitGroupStable(ctx, test.want, 1); err != nil {
				t.Fatal(err, monitor.Status())
			}
			b.produce(t, "orders", 3, 1)
			await(t, "a commit with the name of the trigger", func() bool {
				commits, err := admin.FetchOffsets(t.Context(), test.want)
				commit, ok := commits.Lookup("orders", 0)
				return err == nil && ok && commit.At == 3 && strings.HasPrefix(commit.Metadata, group+" ")
			})
		})
	}
}
