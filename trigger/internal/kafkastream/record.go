package kafkastream

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strconv"
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
}

// id is the same for each delivery of a record, and no other's.
func id(r *kgo.Record) string { return fmt.Sprintf("%s-%d-%d", r.Topic, r.Partition, r.Offset) }

// Event has the headers of a record as headers, and its key as the extension partitionkey, in
// base64 where it is no text.
func (m message) Event() event.Event {
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
func (m message) DeadLetter(ctx context.Context, reason string) error {
	r := m.record
	letter := &kgo.Record{
		Topic: m.deliverer.DeadLetter, Key: r.Key, Value: r.Value,
		Headers: append(slices.Clip(r.Headers),
			kgo.RecordHeader{Key: idHeader, Value: []byte(id(r))},
			kgo.RecordHeader{Key: sourceHeader, Value: []byte(m.deliverer.Source)},
			kgo.RecordHeader{Key: reasonHeader, Value: []byte(reason)}),
	}
	return m.client.ProduceSync(ctx, letter).FirstErr()
}
