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

	"goless.io/trigger/internal/delivery"
)

// eventType is the type of the events.
const eventType = "io.goless.kafka.record"

// Additional headers of a record in the dead-letter topic.
const (
	idHeader     = "Goless-Id"
	sourceHeader = "Goless-Source"
	reasonHeader = "Goless-Reason"

	// truncatedHeader contains the number of omitted bytes, if the record is too large for the
	// dead-letter topic.
	truncatedHeader = "Goless-Truncated"
)

// A message is a record in delivery.
type message struct {
	*member
	record *kgo.Record

	// topicID is the ID of the topic of the record, or "" if the broker has none.
	topicID string

	letter chan error // receives the result of writing the dead letter; nil before it is sent
	left   int        // number of parts that the dead letter omits because the broker has rejected them
}

// id returns an ID that is the same for each delivery of a record and unique: the records of a
// deleted topic and of a recreated one with the same partition and offset have different IDs.
func (m *message) id() string {
	r := m.record
	if m.topicID == "" {
		return fmt.Sprintf("%s-%d-%d", r.Topic, r.Partition, r.Offset)
	}
	return fmt.Sprintf("%s-%s-%d-%d", r.Topic, m.topicID, r.Partition, r.Offset)
}

// Event returns the event. The headers of the record become headers, and its key the extension
// partitionkey, in base64 if it is not valid UTF-8 (see the extension kafkakeyencoding). The
// extension kafkatombstone distinguishes a missing value from an empty one.
func (m *message) Event() delivery.Event {
	r := m.record
	e := delivery.Event{
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

// DeadLetter writes the record to the dead-letter topic. It returns when all in-sync replicas have
// stored the record.
//
// A record that is too large for the topic is written without its value, and if necessary without
// its headers and then without its key.
func (m *message) DeadLetter(ctx context.Context, reason string) error {
	m.alone.RLock()
	err := m.write(ctx, reason)
	m.alone.RUnlock()
	if !tooLarge(err) {
		return err
	}
	// It may have been too large only in a batch with others.
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
// A record that was sent without a response may have been stored, and the client retries until it
// knows. Therefore the next call waits for the same record instead of sending another one.
func (m *message) write(ctx context.Context, reason string) error {
	if m.letter == nil {
		m.letter = make(chan error, 1)
		m.client.Produce(ctx, m.deadLetter(reason), func(_ *kgo.Record, err error) { m.letter <- err })
	}
	select {
	case err := <-m.letter:
		m.letter = nil
		if errors.Is(err, kerr.UnknownTopicID) {
			// The topic was deleted and recreated. Without this, the client would never write to it
			// again.
			m.client.PurgeTopicsFromProducing(m.deliverer.DeadLetter)
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(answerTimeout):
		return fmt.Errorf("writing to topic %s timed out after %s", m.deliverer.DeadLetter, answerTimeout)
	}
}

// mostLeft is the maximum number of omitted parts of a dead letter: the value, the headers and the
// key.
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
