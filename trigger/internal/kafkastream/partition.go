package kafkastream

import (
	"context"
	"sync"

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

	// ctx ends when the partition is taken away, and running is done some time after that.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	// uncommitted has an element for each delivery that has begun, or ended, and is not committed.
	uncommitted chan struct{}

	mu        sync.Mutex
	waiting   int // bytes
	paused    bool
	next      kgo.EpochOffset // the one to commit: where to go on after what was delivered
	delivered int             // how many deliveries have ended
	committed int             // how many of those are committed
}

// newPartition returns one whose deliveries have up to batch records.
func newPartition(id int32, batch int) *partition {
	p := &partition{id: id, uncommitted: make(chan struct{}, max(maxUncommitted/max(batch, 1), 2))}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// deliver delivers records that follow each other, unless the partition was taken away. Those that
// only end a transaction are not for the function.
func (m *member) deliver(p *partition, records []*kgo.Record) {
	defer p.running.Add(-len(records))
	select {
	case <-p.ctx.Done():
		return
	case p.uncommitted <- struct{}{}:
	}
	var messages []stream.Message
	bytes := 0
	for _, r := range records {
		bytes += size(r)
		if !r.Attrs.IsControl() {
			messages = append(messages, &message{member: m, record: r})
		}
	}
	if p.ctx.Err() != nil || len(messages) > 0 && !m.deliverer.Deliver(p.ctx, messages...) {
		return
	}
	last := records[len(records)-1]
	p.mu.Lock()
	p.next = kgo.EpochOffset{Epoch: last.LeaderEpoch, Offset: last.Offset + 1}
	p.delivered++
	p.waiting -= bytes
	if p.paused && p.waiting <= maxWaiting/2 {
		m.resume(p)
	}
	if p.delivered-p.committed >= cap(p.uncommitted)/2 {
		tell(m.urgent)
	}
	p.mu.Unlock()
	tell(m.uncommitted)
}

// add makes records be delivered after those that wait already.
func (m *member) add(p *partition, records []*kgo.Record) {
	p.mu.Lock()
	for _, r := range records {
		p.waiting += size(r)
	}
	if p.waiting > maxWaiting && !p.paused {
		m.client.PauseFetchPartitions(map[string][]int32{m.consumer.Topic: {p.id}})
		p.paused = true
	}
	p.mu.Unlock()
	p.running.Add(len(records))
	m.lanes.Add(p, records...)
}

// resume makes the client fetch from a partition again. Its lock is held.
func (m *member) resume(p *partition) {
	m.client.ResumeFetchPartitions(map[string][]int32{m.consumer.Topic: {p.id}})
	p.paused = false
}

// size is about how much memory a record takes.
func size(r *kgo.Record) int {
	bytes := 256 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		bytes += len(h.Key) + len(h.Value)
	}
	return bytes
}
