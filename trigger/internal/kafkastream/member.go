package kafkastream

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"

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

	// metadataMinAge is after how long the client asks again which topics there are when a fetch has
	// failed, and so how soon it sees that its topic was recreated.
	metadataMinAge = time.Second

	// maxDeadLetter bounds the bytes of a batch of dead letters before compression. A record that is
	// larger has a dead letter without its value; a smaller one is the broker's to accept or refuse.
	maxDeadLetter = 64 << 20
)

// A member is one of the group, as long as it runs.
type member struct {
	consumer  *Consumer
	deliverer *stream.Deliverer
	log       *slog.Logger
	client    *kgo.Client
	ready     chan struct{} // closed when client is set
	group     string
	lanes     *stream.Lanes[*partition, *kgo.Record]

	// uncommitted has an element when something is to be committed, and urgent when a partition
	// has little room for more of that.
	uncommitted, urgent chan struct{}

	// committing is held by the commit in progress.
	committing sync.Mutex

	// recreated is set when the topic was deleted and recreated. Then stop ends the member.
	recreated atomic.Bool
	stop      context.CancelFunc

	memory *memory

	// alone is locked by a dead letter that must be in a batch of its own.
	alone sync.RWMutex

	mu         sync.Mutex
	partitions map[int32]*partition
	topicID    kadm.TopicID // the first one that the brokers have reported; zero where they report none
	lag        *int64
}

// join returns a member. It joins the group as soon as brokers answer.
func join(c *Consumer, d *stream.Deliverer, group string) (*member, error) {
	m := &member{
		consumer: c, group: group, deliverer: d, log: d.Sender.Log,
		uncommitted: make(chan struct{}, 1), urgent: make(chan struct{}, 1), partitions: map[int32]*partition{},
		memory: newMemory(), ready: make(chan struct{}),
	}
	m.lanes = stream.NewLanes(d, size, m.deliver)
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	if m.client, err = kgo.NewClient(append(options, m.options()...)...); err != nil {
		return nil, fmt.Errorf("setting up the client of Kafka: %w", err)
	}
	close(m.ready)
	d.Monitor.Lag(m.knownLag)
	return m, nil
}

// run consumes until ctx ends or the topic was recreated, and leaves the group. It is a member, with
// heartbeats and commits, until the last request has ended.
func (m *member) run(ctx context.Context) {
	ctx, m.stop = context.WithCancel(ctx)
	defer m.stop()
	// The loops outlive ctx until the group is left, with commits for what was under way.
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	loops.Go(func() { m.commitLoop(lasting) })
	loops.Go(func() { m.watchLoop(lasting) })
	for ctx.Err() == nil {
		m.poll(ctx)
	}
	m.drain()
	m.client.Close() // takes the partitions away
	stop()
	loops.Wait()
}

// options are those of a consumer that commits by itself. A group that has committed nothing
// begins with the oldest record. The group has the first strategy that all of its members have, and
// range or roundrobin is the default of most other clients. The records that end a transaction are kept, because the group
// lags behind until their offsets are committed too.
func (m *member) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.WithLogger(kslog.New(m.log)),
		kgo.ConsumeTopics(m.consumer.Topic),
		kgo.ConsumerGroup(m.group),
		kgo.Balancers(kgo.CooperativeStickyBalancer(), kgo.RangeBalancer(), kgo.RoundRobinBalancer()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(m.consumer.SessionTimeout),
		kgo.HeartbeatInterval(m.consumer.SessionTimeout / 5),
		kgo.DisableAutoCommit(),
		kgo.MetadataMinAge(metadataMinAge),
		kgo.BlockRebalanceOnPoll(),
		kgo.AdjustFetchOffsetsFn(m.startOffsets),
		kgo.OnPartitionsAssigned(m.onAssigned),
		kgo.OnPartitionsRevoked(m.onRevoked),
		kgo.OnPartitionsLost(m.onLost),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxBytes(fetchMinBytes),
		kgo.FetchMaxPartitionBytes(fetchMinBytes),
		kgo.WithDecompressor(m.memory),
		kgo.WithHooks(m.memory),
		kgo.FetchMaxWait(fetchMaxWait),
		kgo.RecordDeliveryTimeout(produceTimeout),
		kgo.ProducerBatchMaxBytes(maxDeadLetter),
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
	taken := m.drop(revoked)
	for _, p := range taken {
		p.running.Wait()
	}
	if err := m.commit(ctx, func() []*partition { return taken }); err != nil {
		m.log.Warn("not committed before the partitions go to another", "error", err.Error())
	}
}

// onLost ends all requests of the partitions at once: they are another member's already, and nothing
// of them can be committed.
func (m *member) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	taken := m.drop(lost)
	for _, p := range taken {
		p.abort()
	}
	for _, p := range taken {
		p.running.Wait()
	}
}

// drain waits until no record is in delivery, and delivers no other one. The partitions stay assigned,
// so that each of them is committed as soon as its last request has ended.
func (m *member) drain() {
	m.client.PauseFetchTopics(m.consumer.Topic)
	partitions := m.assigned()
	for _, p := range partitions {
		m.end(p)
	}
	for _, p := range partitions {
		p.running.Wait()
	}
}

// drop begins to end the delivery of partitions, and returns them. A partition may come back, and
// would have a record in delivery twice if its deliveries had not ended before that.
func (m *member) drop(ids map[string][]int32) []*partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	var dropped []*partition
	for _, id := range ids[m.consumer.Topic] {
		p := m.partitions[id]
		if p == nil {
			continue
		}
		delete(m.partitions, id)
		m.end(p)
		m.deliverer.Monitor.Solved(p.key())
		dropped = append(dropped, p)
	}
	return dropped
}

// end begins to end the delivery of a partition.
func (m *member) end(p *partition) {
	p.cancel()
	// Partitions that are blocked may have all the places in which these records could be delivered.
	waiting := m.lanes.Drop(p)
	m.release(p, sizes(waiting))
	p.running.Add(-len(waiting))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full, p.failing = false, false // it may come back
	m.fetch(p)
}

func (m *member) assigned() []*partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.partitions))
}
