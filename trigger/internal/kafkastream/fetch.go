package kafkastream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

const (
	// pollTimeout is the time without a record or an error after which a topic is considered
	// consumable.
	pollTimeout = 10 * time.Second

	// failedPause is how long a partition is not fetched after an error. Other partitions are.
	failedPause = time.Second
)

// poll adds the fetched records. Partitions are assigned and revoked only between two polls.
func (m *member) poll(ctx context.Context) {
	if !m.memory.await(ctx) {
		return
	}
	polled, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	fetches := m.client.PollFetches(polled)
	m.client.UpdateFetchMaxBytes(m.memory.next())
	m.mu.Lock()
	for _, fetch := range fetches {
		for _, topic := range fetch.Topics {
			topic.EachPartition(func(f kgo.FetchPartition) {
				if p := m.partitions[f.Partition]; p != nil {
					m.add(p, topic.TopicID, f.Records)
				}
			})
		}
	}
	m.mu.Unlock()
	m.client.AllowRebalance()
	var failed error // an error that does not belong to one partition
	fetches.EachError(func(topic string, id int32, err error) {
		switch {
		case errors.Is(err, errFull), errors.Is(err, context.DeadlineExceeded) && polled.Err() != nil:
		case errors.Is(err, kerr.UnknownTopicID):
			m.leave()
		case topic == m.consumer.Topic && id >= 0:
			m.hold(id, err)
		default:
			failed = err
		}
	})
	if failed == nil {
		m.deliverer.Monitor.Solved("fetch")
	} else if ctx.Err() == nil {
		m.log.Error("not fetched", "error", failed.Error())
		m.deliverer.Monitor.Problem("fetch", stream.Problem{Reason: stream.NotConnected, Message: "topic " + m.consumer.Topic + " cannot be consumed: " + failed.Error()})
		delivery.Sleep(ctx, time.Second)
	}
}

// leave ends the member because its topic was deleted or recreated. Another member of this process
// then joins the group.
func (m *member) leave() {
	if !m.recreated.Swap(true) {
		m.log.Warn("the topic was deleted or recreated; joining the group again", "topic", m.consumer.Topic)
		m.deliverer.Monitor.Problem("", stream.Problem{Reason: stream.NotConnected, Message: "topic " + m.consumer.Topic + " was deleted or recreated; joining the group again"})
		m.stop()
	}
}

// hold reports why a partition was not fetched and pauses it, so that its errors do not slow down
// the other partitions.
func (m *member) hold(id int32, err error) {
	m.mu.Lock()
	p := m.partitions[id]
	m.mu.Unlock()
	if p == nil {
		return
	}
	message := fmt.Sprintf("partition %d of topic %s cannot be consumed: %v", id, m.consumer.Topic, err)
	if tooLarge, ok := errors.AsType[*kgo.ErrDecompressTooLarge](err); ok {
		message = fmt.Sprintf("partition %d of topic %s cannot be consumed: the batch at offset %d has more than %d bytes when decompressed; "+
			"stop the trigger and reset the offset of the group to %d, or give the pod more memory if that is less than 64 MiB", id, m.consumer.Topic, tooLarge.Offset, m.memory.maxBatch, tooLarge.NextOffset)
	}
	m.log.Error("not fetched", "partition", id, "error", err.Error())
	m.deliverer.Monitor.Problem(p.key(), stream.Problem{Reason: stream.NotConnected, Message: message})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		m.deliverer.Monitor.Solved(p.key())
		return
	}
	p.failed, p.failing = time.Now(), true
	p.fatal = errors.Is(err, kgo.ErrMaxDecompress)
	m.fetch(p)
	time.AfterFunc(failedPause, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.ctx.Err() == nil {
			p.failing = false
			m.fetch(p)
		}
	})
}

// noteSolved clears the problems of partitions that had no error for pollTimeout.
func (m *member) noteSolved() {
	for _, p := range m.assigned() {
		p.mu.Lock()
		if !p.failed.IsZero() && !p.fatal && time.Since(p.failed) > pollTimeout {
			p.failed = time.Time{}
			m.deliverer.Monitor.Solved(p.key())
		}
		p.mu.Unlock()
	}
}
