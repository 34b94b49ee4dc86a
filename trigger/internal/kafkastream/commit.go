package kafkastream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"goless.io/trigger/internal/send"
)

const (
	// commitInterval is how long what was delivered waits for more, so that one commit is for
	// all of it.
	commitInterval = 20 * time.Millisecond

	commitTimeout = 10 * time.Second
	commitBackoff = time.Second
)

// tell lets the loop know something that it may know already.
func tell(news chan<- struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// commitLoop commits what was delivered, and soon: what is not committed is delivered again
// after a crash. It waits for more while no partition may run out of room.
func (m *member) commitLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.uncommitted:
		}
		select {
		case <-ctx.Done():
			return
		case <-m.urgent:
		case <-time.After(commitInterval):
		}
		if err := m.commit(ctx, m.assigned); err != nil && ctx.Err() == nil {
			m.log.Warn("not committed", "error", err.Error())
			tell(m.uncommitted)
			send.Sleep(ctx, commitBackoff)
		}
	}
}

// commit commits what was delivered of some partitions. Commits run one at a time, and each asks for
// its partitions and reads their offsets when it begins: an older offset never overwrites a newer one,
// nor that of another member.
func (m *member) commit(ctx context.Context, of func() []*partition) error {
	m.committing.Lock()
	defer m.committing.Unlock()
	if m.recreated.Load() {
		return nil // the offsets are those of a topic that no longer exists
	}
	partitions := of()
	offsets, delivered, owner := map[int32]kgo.EpochOffset{}, map[int32]int{}, map[int32]string{}
	for _, p := range partitions {
		p.mu.Lock()
		if p.delivered > p.committed {
			offsets[p.id], delivered[p.id], owner[p.id] = p.next, p.delivered, m.consumer.owner(p.topicID)
		}
		p.mu.Unlock()
	}
	if len(offsets) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	failed := map[int32]error{}
	var err error
	m.client.CommitOffsetsSync(withMetadata(ctx, owner), map[string]map[int32]kgo.EpochOffset{m.consumer.Topic: offsets},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, failure error) {
			failed, err = verdicts(answer), failure
		})
	if err != nil {
		return fmt.Errorf("committing: %w", err)
	}
	for _, p := range partitions {
		if n, asked := delivered[p.id]; asked && failed[p.id] == nil {
			p.noteCommit(n)
		}
	}
	var all []error
	for id, failure := range failed {
		all = append(all, fmt.Errorf("committing partition %d: %w", id, failure))
	}
	return errors.Join(all...)
}

// verdicts are the partitions that were not committed, and why.
func verdicts(answer *kmsg.OffsetCommitResponse) map[int32]error {
	failed := map[int32]error{}
	if answer == nil {
		return failed
	}
	for _, topic := range answer.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				failed[p.Partition] = err
			}
		}
	}
	return failed
}

// noteCommit notes that n of the deliveries that have ended are committed.
func (p *partition) noteCommit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; p.committed < n; p.committed++ {
		<-p.uncommitted
	}
}
