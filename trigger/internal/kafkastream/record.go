package kafkastream

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"goless.io/trigger/internal/event"
)

// eventType is the type of the events.
const eventType = "io.goless.kafka.record"

// Headers that a record has in the topic of dead letters beside its own.
const (
	idHeader     = "Goless-Id"
	sourceHeader = "Goless-Source"
	reasonHeader = "Goless-Reason"

	// truncatedHeader has the number of bytes that were left out, where the record is too large for
	// the topic of dead letters.
	truncatedHeader = "Goless-Truncated"
)

// A message is a record in delivery.
type message struct {
	*member
	record *kgo.Record

	// topicID is the id of the topic that the record is of; "" where the broker has none.
	topicID string

	letter chan error // gets what becomes of it in the topic of dead letters; nil before it is sent there
	left   int        // how many parts of it the dead letter leaves out, because the broker has refused them
}

// id is the same for each delivery of a record, and no other's: a topic that is deleted and recreated
// has other records with the same partition and offset, and another id.
func (m *message) id() string {
	r := m.record
	if m.topicID == "" {
		return fmt.Sprintf("%s-%d-%d", r.Topic, r.Partition, r.Offset)
	}
	return fmt.Sprintf("%s-%s-%d-%d", r.Topic, m.topicID, r.Partition, r.Offset)
}

// Event has the headers of a record as headers, and its key as the extension partitionkey, in
// base64 if it is not valid UTF-8, as kafkakeyencoding says. The value of a tombstone is missing and not empty.
func (m *message) Event() event.Event {
	r := m.record
	e := event.Event{
		ID: m.id(), Source: m.deliverer.Source, Type: eventType, Time: r.Timestamp, Data: r.Value,
		Extensions: map[string]string{
			"kafkatopic": r.Topic, "kafkapartition": strconv.Itoa(int(r.Partition)), "kafkaoffset": strconv.FormatInt(r.Offset, 10),
		},
		Header: http.Header{},
	}
	switch {
	case !utf8.Valid(r.Key):
		e.Extensions["partitionkey"], e.Extensions["kafkakeyencoding"] = base64.StdEncoding.EncodeToString(r.Key), "base64"
	case len(r.Key) > 0:
		e.Extensions["partitionkey"], e.Extensions["kafkakeyencoding"] = string(r.Key), "text"
	}
	if r.Value == nil {
		e.Extensions["kafkatombstone"] = "true"
	}
	for _, h := range r.Headers {
		e.Header.Add(h.Key, string(h.Value))
	}
	return e
}

// DeadLetter writes the record to the topic of dead letters. All replicas of the broker have it
// when it returns.
//
// A record that is too large for the topic is written without its value, or without its headers and
// its key too.
func (m *message) DeadLetter(ctx context.Context, reason string) error {
	m.alone.RLock()
	err := m.write(ctx, reason)
	m.alone.RUnlock()
	if !tooLarge(err) {
		return err
	}
	// It may have been too large only together with others.
	m.alone.Lock()
	defer m.alone.Unlock()
	for err = m.write(ctx, reason); tooLarge(err) && m.left < mostLeft; err = m.write(ctx, reason) {
		m.left++
	}
	return err
}

func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// write writes the dead letter once.
//
// A record that was sent and not answered may be there, and the client asks until it knows. So
// the next call waits for the same one, in the place of sending another.
func (m *message) write(ctx context.Context, reason string) error {
	if m.letter == nil {
		m.letter = make(chan error, 1)
		m.client.Produce(ctx, m.deadLetter(reason), func(_ *kgo.Record, err error) { m.letter <- err })
	}
	select {
	case err := <-m.letter:
		m.letter = nil
		if errors.Is(err, kerr.UnknownTopicID) {
			// The topic was deleted and recreated. Without this the client never writes to it again.
			m.client.PurgeTopicsFromProducing(m.deliverer.DeadLetter)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(answerTimeout):
		return fmt.Errorf("topic %s has not answered for %s", m.deliverer.DeadLetter, answerTimeout)
	}
}

// mostLeft is how many parts a dead letter leaves out at most: the value, the headers, and the key.
const mostLeft = 3

func (m *message) deadLetter(reason string) *kgo.Record {
	letter := &kgo.Record{Topic: m.deliverer.DeadLetter, Key: m.record.Key, Value: m.record.Value, Headers: slices.Clip(m.record.Headers)}
	bytes := 0
	if m.left > 0 {
		bytes += len(letter.Value)
		letter.Value = nil
	}
	if m.left > 1 {
		for _, h := range letter.Headers {
			bytes += len(h.Key) + len(h.Value)
		}
		letter.Headers = nil
	}
	if m.left > 2 {
		bytes += len(letter.Key)
		letter.Key = nil
	}
	letter.Headers = append(letter.Headers,
		kgo.RecordHeader{Key: idHeader, Value: []byte(m.id())},
		kgo.RecordHeader{Key: sourceHeader, Value: []byte(m.deliverer.Source)},
		kgo.RecordHeader{Key: reasonHeader, Value: []byte(reason)})
	if m.left > 0 {
		letter.Headers = append(letter.Headers, kgo.RecordHeader{Key: truncatedHeader, Value: strconv.AppendInt(nil, int64(bytes), 10)})
	}
	return letter
}
