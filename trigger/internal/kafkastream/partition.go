package kafkastream

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"goless.io/trigger/internal/stream"
)

const (
	// maxWaiting is how many bytes of a partition wait here for their delivery before no more
	// are fetched.
	maxWaiting = 128 << 10

	// maxUncommitted is how many records of a partition may be delivered and not committed, or as
	// many as two batches have. They are delivered again when this process is killed.
	maxUncommitted = 64
)

// A partition is one that the group has assigned to this consumer. Its records are delivered
// one after the other.
type partition struct {
	id int32

	// topicID is the id of the topic that its records are of; "" where the broker has none. It is
	// set before the first record waits, when started becomes true.
	topicID string
	started bool

	// ctx ends when the partition is taken away, and running is done some time after that, or at
	// once with abort.
	ctx           context.Context
	cancel, abort context.CancelFunc
	running       sync.WaitGroup

	// uncommitted has an element for each delivery that has begun, or ended, and is not committed.
	uncommitted chan struct{}

	mu        sync.Mutex
	waiting   int             // bytes
	full      bool            // too many records wait
	failing   bool            // it was just not fetched
	paused    bool            // because of either
	failed    time.Time       // when it was last not fetched; zero where that is solved
	fatal     bool            // and it never is
	next      kgo.EpochOffset // the one to commit: where to go on after what was delivered
	delivered int             // how many deliveries have ended
	committed int             // how many of those are committed
}

// newPartition returns one whose deliveries have up to batch records.
func newPartition(id int32, batch int) *partition {
	p := &partition{id: id, uncommitted: make(chan struct{}, max(maxUncommitted/max(batch, 1), 2))}
	abort, cancel := context.WithCancel(context.Background())
	p.abort = cancel
	p.ctx, p.cancel = context.WithCancel(stream.WithAbort(abort, abort))
	return p
}

// key is that of its problem.
func (p *partition) key() string { return fmt.Sprintf("fetch/%d", p.id) }

// deliver delivers records that follow each other, unless the partition was taken away. Those that
// only end a transaction are not for the function.
func (m *member) deliver(p *partition, records []*kgo.Record) {
	defer p.running.Add(-len(records))
	defer m.release(p, sizes(records))
	select {
	case <-p.ctx.Done():
		return
	case p.uncommitted <- struct{}{}:
	}
	var messages []stream.Message
	for _, r := range records {
		if !r.Attrs.IsControl() {
			messages = append(messages, &message{member: m, record: r, topicID: p.topicID})
		}
	}
	if p.ctx.Err() != nil || len(messages) > 0 && !m.deliverer.Deliver(p.ctx, messages...) {
		return
	}
	last := records[len(records)-1]
	p.mu.Lock()
	p.next = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
	p.delivered++
	if p.delivered-p.committed >= cap(p.uncommitted)/2 {
		tell(m.urgent)
	}
	p.mu.Unlock()
	tell(m.uncommitted)
}

// add makes records be delivered after those that wait already.
func (m *member) add(p *partition, id [16]byte, records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	if !p.started {
		p.started, p.topicID = true, encode(id)
	}
	for i, r := range records {
		records[i] = own(r)
	}
	bytes := sizes(records)
	m.memory.waiting.Add(int64(bytes))
	p.mu.Lock()
	p.waiting += bytes
	p.full = p.full || p.waiting > maxWaiting
	m.fetch(p)
	if !p.failed.IsZero() && !p.failing {
		p.failed = time.Time{}
		m.deliverer.Monitor.Solved(p.key())
	}
	p.mu.Unlock()
	p.running.Add(len(records))
	m.lanes.Add(p, records...)
}

// release notes that records do not wait any longer.
func (m *member) release(p *partition, bytes int) {
	p.mu.Lock()
	p.waiting -= bytes
	if p.full && p.waiting <= maxWaiting/2 {
		p.full = false
		m.fetch(p)
	}
	p.mu.Unlock()
	m.memory.release(bytes)
}

// fetch makes the client fetch from a partition, or not. The lock of the partition is held.
func (m *member) fetch(p *partition) {
	pause := p.full || p.failing
	if pause == p.paused {
		return
	}
	p.paused = pause
	which := map[string][]int32{m.consumer.Topic: {p.id}}
	if pause {
		m.client.PauseFetchPartitions(which)
	} else {
		m.client.ResumeFetchPartitions(which)
	}
}
