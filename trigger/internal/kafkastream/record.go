package kafkastream

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

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
)

// A message is a record in delivery.
type message struct {
	*member
	record *kgo.Record
	letter chan error // gets what becomes of it in the topic of dead letters; nil before it is sent there
}

// id is the same for each delivery of a record, and no other's.
func id(r *kgo.Record) string { return fmt.Sprintf("%s-%d-%d", r.Topic, r.Partition, r.Offset) }

// Event has the headers of a record as headers, and its key as the extension partitionkey, in
// base64 where it is no text.
func (m *message) Event() event.Event {
	r := m.record
	e := event.Event{
		ID: id(r), Source: m.deliverer.Source, Type: eventType, Time: r.Timestamp, Data: r.Value,
		Extensions: map[string]string{
			"kafkatopic": r.Topic, "kafkapartition": strconv.Itoa(int(r.Partition)), "kafkaoffset": strconv.FormatInt(r.Offset, 10),
		},
		Header: http.Header{},
	}
	switch {
	case !utf8.Valid(r.Key):
		e.Extensions["partitionkey"] = base64.StdEncoding.EncodeToString(r.Key)
	case len(r.Key) > 0:
		e.Extensions["partitionkey"] = string(r.Key)
	}
	for _, h := range r.Headers {
		e.Header.Add(h.Key, string(h.Value))
	}
	return e
}

// DeadLetter writes the record to the topic of dead letters. All replicas of the broker have it
// when it returns.
//
// A record that was sent and not answered may be there, and the client asks until it knows. So
// the next call waits for the same one, in the place of sending another.
func (m *message) DeadLetter(ctx context.Context, reason string) error {
	if m.letter == nil {
		m.letter = make(chan error, 1)
		m.client.Produce(ctx, m.deadLetter(reason), func(_ *kgo.Record, err error) { m.letter <- err })
	}
	select {
	case err := <-m.letter:
		m.letter = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(answerTimeout):
		return fmt.Errorf("topic %s has not answered for %s", m.deliverer.DeadLetter, answerTimeout)
	}
}

func (m *message) deadLetter(reason string) *kgo.Record {
	r := m.record
	return &kgo.Record{
		Topic: m.deliverer.DeadLetter, Key: r.Key, Value: r.Value,
		Headers: append(slices.Clip(r.Headers),
			kgo.RecordHeader{Key: idHeader, Value: []byte(id(r))},
			kgo.RecordHeader{Key: sourceHeader, Value: []byte(m.deliverer.Source)},
			kgo.RecordHeader{Key: reasonHeader, Value: []byte(reason)}),
	}
}
