package kafkastream

import (
	"cmp"
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
	// produceTimeout is the time after which a failed dead letter is reported with its error.
	// answerTimeout is the time after which a missing response is reported.
	produceTimeout = 10 * time.Second
	answerTimeout  = 15 * time.Second

	// fetchMaxWait limits how long a fetch request waits for records. A partition that is resumed
	// waits until the current request, which does not include it, has ended.
	fetchMaxWait = 500 * time.Millisecond

	// metadataMinAge is the minimum interval of metadata requests after failed fetches, and
	// therefore how soon a recreated topic is detected.
	metadataMinAge = time.Second

	// maxDeadLetter limits the size of a batch of dead letters before compression, in bytes. A
	// larger record is written without its value. The broker accepts or rejects a smaller one.
	maxDeadLetter = 64 << 20
)

// A member is a member of the consumer group.
type member struct {
	consumer  *Consumer
	deliverer *stream.Deliverer
	log       *slog.Logger
	client    *kgo.Client
	ready     chan struct{} // closed when client is set
	group     string
	lanes     *stream.Lanes[*partition, *kgo.Record]

	// uncommitted contains an element when there are deliveries to commit, and urgent when a
	// partition is close to maxUncommitted.
	uncommitted, urgent chan struct{}

	// committing is held during a commit.
	committing sync.Mutex

	// recreated is set when the topic was deleted and recreated. stop then ends the member.
	recreated atomic.Bool
	stop      context.CancelFunc

	memory *memory

	// alone is locked by a dead letter that must be in its own batch.
	alone sync.RWMutex

	mu         sync.Mutex
	partitions map[int32]*partition
	topicID    kadm.TopicID // the first ID that the brokers reported; zero if none
	lag        *int64
}

// join returns a member. It joins the group when a broker responds.
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

// run consumes until ctx ends or the topic is recreated, and then leaves the group. It sends
// heartbeats and commits until the last request has ended.
func (m *member) run(ctx context.Context) {
	ctx, m.stop = context.WithCancel(ctx)
	defer m.stop()
	// The loops continue after ctx has ended until the group is left, so that the last deliveries
	// are committed.
	lasting, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	loops.Go(func() { m.commitLoop(lasting) })
	loops.Go(func() { m.watchLoop(lasting) })
	for ctx.Err() == nil {
		m.poll(ctx)
	}
	m.drain()
	m.client.Close() // revokes the partitions
	stop()
	loops.Wait()
}

// options returns the options of a consumer without automatic commits.
//   - A group without committed offsets begins with the oldest record.
//   - The group uses the first strategy that all members support. range or roundrobin is the
//     default of most other clients.
//   - Control records, which end transactions, are kept. The group would have a lag until their
//     offsets are committed too.
func (m *member) options() []kgo.Opt {
	return []kgo.Opt{
		kgo.WithLogger(kslog.New(m.log)),
		kgo.ConsumeTopics(m.consumer.Topic),
		kgo.ConsumerGroup(m.group),
		kgo.Balancers(kgo.CooperativeStickyBalancer(), kgo.RangeBalancer(), kgo.RoundRobinBalancer()),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(m.consumer.SessionTimeout),
		kgo.HeartbeatInterval(cmp.Or(m.consumer.heartbeat, m.consumer.SessionTimeout/5)),
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

// onRevoked commits the deliveries of the partitions before another member gets them.
func (m *member) onRevoked(ctx context.Context, _ *kgo.Client, revoked map[string][]int32) {
	taken := m.drop(revoked)
	for _, p := range taken {
		p.running.Wait()
	}
	if err := m.commit(ctx, func() []*partition { return taken }); err != nil {
		m.log.Warn("offsets not committed before the partitions were reassigned", "error", err.Error())
	}
}

// onLost cancels all requests of the partitions immediately: the partitions already belong to
// another member, and nothing can be committed.
func (m *member) onLost(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	taken := m.drop(lost)
	for _, p := range taken {
		p.abort()
	}
	for _, p := range taken {
		p.running.Wait()
	}
}

// drain waits until no record is in delivery and starts no further deliveries. The partitions stay
// assigned, so that each is committed when its last request has ended.
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

// drop begins to stop the delivery of partitions and returns them. A partition can be assigned
// again; its deliveries must have ended by then, otherwise a record would be delivered twice
// concurrently.
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

// end begins to stop the delivery of a partition.
func (m *member) end(p *partition) {
	p.cancel()
	// Remove the waiting records: blocked partitions may occupy all slots.
	waiting := m.lanes.Drop(p)
	m.release(p, sizes(waiting))
	p.running.Add(-len(waiting))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.full, p.failing = false, false // it may be assigned again
	m.fetch(p)
}

func (m *member) assigned() []*partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.partitions))
}
