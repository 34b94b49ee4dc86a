package kafkastream

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"goless.io/trigger/internal/stream"
)

// maxWaiting is how many bytes of a partition wait here for their delivery before no more are
// fetched.
const maxWaiting = 128 << 10

// A partition is one that the group has assigned to this consumer. Its records are delivered
// one after the other.
type partition struct {
	id int32

	// ctx ends when the partition is taken away, and running is done some time after that.
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	waiting int // bytes
	paused  bool
}

func newPartition(id int32) *partition {
	p := &partition{id: id}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// deliver delivers records that follow each other, unless the partition was taken away, and lets
// their offsets be committed. Those that only end a transaction are not for the function.
func (m *member) deliver(p *partition, records []*kgo.Record) {
	defer p.running.Add(-len(records))
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
	m.client.MarkCommitRecords(records[len(records)-1])
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting -= bytes
	if p.paused && p.waiting <= maxWaiting/2 {
		m.resume(p)
	}
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
