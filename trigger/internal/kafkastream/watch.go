package kafkastream

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"goless.io/trigger/internal/send"
	"goless.io/trigger/internal/stream"
)

const (
	// watchInterval is how often the brokers are asked for how many records wait.
	watchInterval = 5 * time.Second

	// watchAgain is after how long they are asked again when they have not answered.
	watchAgain = time.Second

	// watchTimeout is how long they may take.
	watchTimeout = 10 * time.Second
)

// watchLoop tells how many records wait for the group, or why that cannot be said: then
// nothing is consumed either.
func (m *member) watchLoop(ctx context.Context) {
	for ctx.Err() == nil {
		lag, err := m.askForLag(ctx)
		if err != nil {
			m.note(nil)
			m.deliverer.Monitor.Problem("", stream.Problem{Reason: stream.NotConnected, Message: "topic " + m.consumer.Topic + " cannot be consumed: " + err.Error()})
			send.Sleep(ctx, watchAgain)
			continue
		}
		m.note(&lag)
		m.deliverer.Monitor.Solved("")
		send.Sleep(ctx, watchInterval)
	}
}

// askForLag asks how many records the group has not committed, of all partitions. Those of a
// transaction that is not committed do not count.
func (m *member) askForLag(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	admin := kadm.NewClient(m.client)
	starts, err := admin.ListStartOffsets(ctx, m.consumer.Topic)
	if err := errors.Join(err, starts.Error()); err != nil {
		return 0, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, m.consumer.Topic)
	if err := errors.Join(err, ends.Error()); err != nil {
		return 0, err
	}
	commits, err := admin.FetchOffsetsForTopics(ctx, m.consumer.Group, m.consumer.Topic)
	if err := errors.Join(err, commits.Error()); err != nil {
		return 0, err
	}
	var lag int64
	ends.Each(func(end kadm.ListedOffset) {
		next := int64(0)
		if start, ok := starts.Lookup(end.Topic, end.Partition); ok {
			next = start.Offset
		}
		if commit, ok := commits.Lookup(end.Topic, end.Partition); ok {
			next = max(next, commit.At)
		}
		lag += end.Offset - next
	})
	return lag, nil
}

func (m *member) note(lag *int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lag = lag
}

// knownLag is what was seen last.
func (m *member) knownLag() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lag == nil {
		return 0, false
	}
	return *m.lag, true
}
