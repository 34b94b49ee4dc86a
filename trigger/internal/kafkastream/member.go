package kafkastream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"

	"goless.io/trigger/internal/send"
	"goless.io/trigger/internal/stream"
)

const (
	// produceTimeout is after how long it is told why a dead letter was not taken, and answerTimeout
	// that there is no answer at all.
	produceTimeout = 10 * time.Second
	answerTimeout  = 15 * time.Second

	// fetchMaxWait bounds how long a partition of which more is wanted waits for the answer to a
	// request that does not ask for it.
	fetchMaxWait = 500 * time.Millisecond

	fetchMaxBytes = 4 << 20

	// pollTimeout is after how long without a record and without an error a topic can be consumed.
	pollTimeout = 10 * time.Second
)

// A member is one of the group, as long as it runs.
type member struct {
	consumer  *Consumer
	deliverer *stream.Deliverer
	log       *slog.Logger
	client    *kgo.Client
	lanes     *stream.Lanes[*partition, *kgo.Record]

	// uncommitted has an element when something is to be committed, and urgent when a partition
	// has little room for more of that.
	uncommitted, urgent chan struct{}

	mu         sync.Mutex
	partitions map[int32]*partition
	lag        *int64
}

// join returns a member. It joins the group as soon as brokers answer.
func join(c *Consumer, d *stream.Deliverer) (*member, error) {
	m := &member{
		consumer: c, deliverer: d, log: d.Sender.Log,
		uncommitted: make(chan struct{}, 1), urgent: make(chan struct{}, 1), partitions: map[int32]*partition{},
	}
	m.lanes = stream.NewLanes(d, size, m.deliver)
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	if m.client, err = kgo.NewClient(append(options, m.options()...)...); err != nil {
		return nil, fmt.Errorf("setting up the client of Kafka: %w", err)
	}
	d.Monitor.Lag(m.knownLag)
	return m, nil
}

// run consumes until ctx ends, and leaves the group.
func (m *member) run(ctx context.Context) {
	// The loops outlive ctx until the group is left, with commits for what was under way.
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	loops.Go(func() { m.commitLoop(lasting) })
	loops.Go(func() { m.watchLoop(lasting) })
	for ctx.Err() == nil {
		m.poll(ctx)
	}
	m.client.Close() // takes the partitions away
	stop()
	loops.Wait()
}

// options are those of a consumer that commits by itself. A group that has committed nothing
// begins with the oldest record. The records that end a transaction are kept, because the group
// lags behind until their offsets are committed too.
func (m *member) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.WithLogger(kslog.New(m.log)),
		kgo.ConsumeTopics(m.consumer.Topic),
		kgo.ConsumerGroup(m.consumer.Group),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(m.consumer.SessionTimeout),
		kgo.HeartbeatInterval(m.consumer.SessionTimeout / 5),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(m.onAssigned),
		kgo.OnPartitionsRevoked(m.onRevoked),
		kgo.OnPartitionsLost(m.onLost),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(fetchMaxBytes),
		kgo.FetchMaxPartitionBytes(maxWaiting),
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.RecordDeliveryTimeout(produceTimeout),
	}
}

// poll takes what was fetched. Partitions come and go only between two polls.
func (m *member) poll(ctx context.Context) {
	polled, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	fetches := m.client.PollFetches(polled)
	m.mu.Lock()
	fetches.EachPartition(func(f kgo.FetchTopicPartition) {
		if p := m.partitions[f.Partition]; p != nil {
			m.add(p, f.Records)
		}
	})
	m.mu.Unlock()
	m.client.AllowRebalance()
	err := fetches.Err()
	if err == nil || errors.Is(err, context.DeadlineExceeded) && polled.Err() != nil {
		m.deliverer.Monitor.Solved("fetch")
	} else if ctx.Err() == nil {
		m.log.Error("not fetched", "error", err.Error())
		m.deliverer.Monitor.Problem("fetch", stream.Problem{Reason: stream.NotConnected, Message: "topic " + m.consumer.Topic + " cannot be consumed: " + err.Error()})
		send.Sleep(ctx, time.Second)
	}
}

func (m *member) onAssigned(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range assigned[m.consumer.Topic] {
		m.partitions[id] = newPartition(id, m.deliverer.Batch)
	}
}

// onRevoked commits what was delivered: after that the partitions are another's.
func (m *member) onRevoked(ctx context.Context, _ *kgo.Client, revoked map[string][]int32) {
	if err := m.commit(ctx, m.takeAway(revoked)); err != nil {
		m.log.Warn("not committed before the partitions go to another", "error", err.Error())
	}
}

// onLost is called when the partitions are another's already, so that nothing of them can be
// committed.
func (m *member) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) { m.takeAway(lost) }

// takeAway ends the delivery of partitions, and returns them when nothing of them is in delivery any
// more. A partition that comes back would otherwise have a record in delivery twice at the same time.
func (m *member) takeAway(ids map[string][]int32) []*partition {
	taken := m.drop(ids[m.consumer.Topic])
	for _, p := range taken {
		p.running.Wait()
	}
	return taken
}

// drop begins to end the delivery of partitions, and returns them.
func (m *member) drop(ids []int32) []*partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	var dropped []*partition
	for _, id := range ids {
		p := m.partitions[id]
		if p == nil {
			continue
		}
		delete(m.partitions, id)
		p.cancel()
		// What is blocked in other partitions may have all the places in which it could be delivered.
		p.running.Add(-len(m.lanes.Drop(p)))
		p.mu.Lock()
		m.resume(p) // it may come back
		p.mu.Unlock()
		dropped = append(dropped, p)
	}
	return dropped
}

func (m *member) assigned() []*partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.partitions))
}
