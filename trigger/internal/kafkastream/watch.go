package kafkastream

import (
	"context"
	"errors"
	"fmt"
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
		m.noteSolved()
		if !m.recreated.Load() {
			m.deliverer.Monitor.Solved("")
		}
		send.Sleep(ctx, watchInterval)
	}
}

// askForLag asks how many records the group has not committed, of all partitions that have a leader.
// Those of a transaction that is not committed do not count. It also reports what is wrong with the
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
	// The commits come first: what is committed later than the ends were listed may be past them.
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

// startOf returns the first offset that a partition has; 0 where it is not known.
func startOf(starts kadm.ListedOffsets, end kadm.ListedOffset) int64 {
	if start, ok := starts.Lookup(end.Topic, end.Partition); ok && start.Err == nil {
		return start.Offset
	}
	return 0
}

// ofAll reports whether no broker has answered. Where one has, its partitions are known.
func ofAll(err error) bool {
	some, ok := errors.AsType[*kadm.ShardErrors](err)
	return err != nil && (!ok || some.AllFailed)
}

// noteTopic notes the id of the topic, which changes when it is deleted and recreated.
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

// noteAhead reports that offsets are committed that their partitions have not reached. Those of a
// transaction that is not committed have been reached.
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
				"group %s has committed offset %d of partition %d of topic %s, which ends at %d: the topic has lost records or was recreated, "+
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

// knownLag is what was seen last.
func (m *member) knownLag() (int64, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.lag == nil {
		return 0, false
	}
	return *m.lag, true
}
