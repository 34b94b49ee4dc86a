package kafkastream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"goless.io/trigger/internal/delivery"
)

const (
	// commitInterval is the delay of a commit, so that it covers several deliveries.
	commitInterval = 20 * time.Millisecond

	commitTimeout = 10 * time.Second
	commitBackoff = time.Second
)

// tell sends a notification, unless one is pending already.
func tell(news chan<- struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// commitLoop commits deliveries shortly after they finish, because uncommitted records are
// delivered again after a crash. It commits immediately when a partition is close to
// maxUncommitted.
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
			delivery.Sleep(ctx, commitBackoff)
		}
	}
}

// commit commits the deliveries of some partitions. Commits run one at a time. Each commit gets its
// partitions from of and reads their offsets when it begins, so that it never overwrites a newer
// offset, or an offset of another member, with an older one.
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

// verdicts returns the partitions that were not committed, with the errors.
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

// noteCommit records that the first n deliveries are committed.
func (p *partition) noteCommit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for ; p.committed < n; p.committed++ {
		<-p.uncommitted
	}
}
