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
	// maxWaiting is the number of waiting bytes of a partition above which no more are fetched.
	maxWaiting = 128 << 10

	// maxUncommitted is the maximum number of records of a partition that are delivered but not
	// committed; with large batches, it is two batches. They are delivered again if this process is
	// killed.
	maxUncommitted = 64
)

// A partition is a partition that is assigned to this consumer. Its records are delivered one after
// the other.
type partition struct {
	id int32

	// topicID is the ID of the topic of the records, or "" if the broker does not send it. It is
	// set when the first records are added, which also sets started.
	topicID string
	started bool

	// ctx ends when the partition is revoked. running is done some time after that, or immediately
	// with abort.
	ctx           context.Context
	cancel, abort context.CancelFunc
	running       sync.WaitGroup

	// uncommitted contains an element for each delivery that has begun and is not committed.
	uncommitted chan struct{}

	mu        sync.Mutex
	waiting   int             // bytes
	full      bool            // too many bytes wait
	failing   bool            // a fetch has just failed
	paused    bool            // because it is full or failing
	failed    time.Time       // time of the last failed fetch; zero if it is solved
	fatal     bool            // the error is permanent
	next      kgo.EpochOffset // offset to commit, of the record after the last delivery
	delivered int             // number of finished deliveries
	committed int             // number of those that are committed
}

// newPartition returns a partition whose deliveries contain up to batch records.
func newPartition(id int32, batch int) *partition {
	p := &partition{id: id, uncommitted: make(chan struct{}, max(maxUncommitted/max(batch, 1), 2))}
	abort, cancel := context.WithCancel(context.Background())
	p.abort = cancel
	p.ctx, p.cancel = context.WithCancel(stream.WithAbort(abort, abort))
	return p
}

// key returns the key of the problem of the partition.
func (p *partition) key() string { return fmt.Sprintf("fetch/%d", p.id) }

// deliver delivers consecutive records, unless the partition was revoked. Control records are not
// sent to the function.
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

// add queues records behind those that are waiting.
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

// release records that records no longer wait.
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

// fetch pauses or resumes the fetching of a partition. The caller holds the lock of the partition.
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
