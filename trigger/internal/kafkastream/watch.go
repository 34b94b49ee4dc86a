package kafkastream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

const (
	// watchInterval is the interval of queries for the lag.
	watchInterval = 5 * time.Second

	// watchAgain is the delay after a query that has failed.
	watchAgain = time.Second

	// watchTimeout limits a query.
	watchTimeout = 10 * time.Second
)

// watchLoop updates the lag of the group, or reports why it is unknown. In that case no records are
// consumed either.
func (m *member) watchLoop(ctx context.Context) {
	for ctx.Err() == nil {
		lag, err := m.askForLag(ctx)
		if err != nil {
			m.note(nil)
			m.deliverer.Monitor.Problem("", stream.Problem{Reason: stream.NotConnected, Message: "topic " + m.consumer.Topic + " cannot be consumed: " + err.Error()})
			delivery.Sleep(ctx, watchAgain)
			continue
		}
		m.note(&lag)
		m.noteSolved()
		if !m.recreated.Load() {
			m.deliverer.Monitor.Solved("")
		}
		delivery.Sleep(ctx, watchInterval)
	}
}

// askForLag returns the number of records that the group has not committed, in all partitions that
// have a leader. Records of open transactions are not counted. It also reports problems of the
// topic.
func (m *member) askForLag(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, watchTimeout)
	defer cancel()
	admin := kadm.NewClient(m.client)
	topics, err := admin.ListTopics(ctx, m.consumer.Topic)
	if err := errors.Join(err, topics.Error()); err != nil {
		return 0, err
	}
	m.noteTopic(topics[m.consumer.Topic].ID)
	m.deliverer.Monitor.Partitions(int32(len(topics[m.consumer.Topic].Partitions)))
	// Query the commits first: commits that follow the query for the ends could exceed them.
	commits, err := admin.FetchOffsetsForTopics(ctx, m.group, m.consumer.Topic)
	if err := errors.Join(err, commits.Error()); err != nil {
		return 0, err
	}
	starts, err := admin.ListStartOffsets(ctx, m.consumer.Topic)
	if ofAll(err) {
		return 0, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, m.consumer.Topic)
	if ofAll(err) {
		return 0, err
	}
	var lag int64
	var known int
	var ahead []kadm.Offset
	ends.Each(func(end kadm.ListedOffset) {
		if end.Err != nil {
			err = fmt.Errorf("partition %d: %w", end.Partition, end.Err)
			return
		}
		known++
		commit, committed := commits.Lookup(end.Topic, end.Partition)
		if committed && commit.At > end.Offset {
			ahead = append(ahead, commit.Offset)
		}
		lag += max(end.Offset-max(startOf(starts, end), commit.At), 0)
	})
	if known == 0 && err != nil {
		return 0, err
	}
	return lag, m.noteAhead(ctx, admin, ahead)
}

// startOf returns the first offset of a partition, or 0 if it is unknown.
func startOf(starts kadm.ListedOffsets, end kadm.ListedOffset) int64 {
	if start, ok := starts.Lookup(end.Topic, end.Partition); ok && start.Err == nil {
		return start.Offset
	}
	return 0
}

// ofAll reports whether all brokers have failed. If one has responded, its partitions are known.
func ofAll(err error) bool {
	some, ok := errors.AsType[*kadm.ShardErrors](err)
	return err != nil && (!ok || some.AllFailed)
}

// noteTopic records the ID of the topic, which changes when the topic is recreated.
func (m *member) noteTopic(id kadm.TopicID) {
	m.mu.Lock()
	if m.topicID == (kadm.TopicID{}) {
		m.topicID = id
	}
	changed := m.topicID != id && id != kadm.TopicID{}
	m.mu.Unlock()
	if changed {
		m.leave()
	}
}

// noteAhead reports committed offsets that are beyond the end of their partition. The records of
// open transactions count for the end.
func (m *member) noteAhead(ctx context.Context, admin *kadm.Client, commits []kadm.Offset) error {
	const key = "ahead"
	if len(commits) == 0 {
		m.deliverer.Monitor.Solved(key)
		return nil
	}
	ends, err := admin.ListEndOffsets(ctx, m.consumer.Topic)
	if err != nil {
		return err
	}
	for _, commit := range commits {
		if end, ok := ends.Lookup(commit.Topic, commit.Partition); ok && end.Err == nil && commit.At > end.Offset {
			m.deliverer.Monitor.Problem(key, stream.Problem{Reason: stream.NotConnected, Message: fmt.Sprintf(
				"group %s has committed offset %d of partition %d of topic %s, which ends at %d: the topic lost records or was recreated, "+
					"and records before that offset may be skipped; stop the trigger and run kafka-consumer-groups.sh --reset-offsets",
				m.group, commit.At, commit.Partition, commit.Topic, end.Offset)})
			return nil
		}
	}
	m.deliverer.Monitor.Solved(key)
	return nil
}

func (m *member) note(lag *int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lag = lag
}

// knownLag returns the last known lag.
func (m *member) knownLag() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lag == nil {
		return 0, false
	}
	return *m.lag, true
}
