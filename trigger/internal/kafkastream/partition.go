package kafkastream

import (
	"context"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// maxWaiting is how many bytes of a partition wait here for their delivery before no more
	// are fetched.
	maxWaiting = 128 << 10

	// maxUncommitted is how many records of a partition may be delivered and not committed.
	// They are delivered again when this process is killed.
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

	// uncommitted has an element for each record that is delivered, or was, and is not committed.
	uncommitted chan struct{}

	mu        sync.Mutex
	waiting   int // bytes
	paused    bool
	next      kgo.EpochOffset // the one to commit: where to go on after what was delivered
	delivered int             // how many records were
	committed int             // how many of those are committed
}

func newPartition(id int32) *partition {
	p := &partition{id: id, uncommitted: make(chan struct{}, maxUncommitted)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// deliver delivers a record, unless the partition was taken away.
func (m *member) deliver(p *partition, r *kgo.Record) {
	select {
	case <-p.ctx.Done():
		return
	case p.uncommitted <- struct{}{}:
	}
	if !m.deliverer.Deliver(p.ctx, message{m, r}) {
		return
	}
	p.mu.Lock()
	p.next = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	p.delivered++
	p.waiting -= size(r)
	if p.paused && p.waiting <= maxWaiting/2 {
		m.resume(p)
	}
	if p.delivered-p.committed >= maxUncommitted/2 {
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
	for _, r := range records {
		p.running.Add(1)
		m.lanes.Go(strconv.Itoa(int(p.id)), func() {
			defer p.running.Done()
			m.deliver(p, r)
		})
	}
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
