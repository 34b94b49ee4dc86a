package natsstream

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"goless.io/trigger/internal/event"
)

// eventType is the type of the events.
const eventType = "io.goless.nats.message"

// deadLetters is where messages go that the function does not take.
type deadLetters struct {
	js      jetstream.JetStream
	subject string
}

// message is one of NATS.
type message struct {
	id, source, subject string
	at                  time.Time
	header              nats.Header
	data                []byte
	deadLetters         deadLetters
	sequence            uint64 // in the stream; 0 where there is none
}

// size is about how many bytes it has.
func (m *message) size() int {
	bytes := 256 + len(m.data)
	for name, values := range m.header {
		for _, value := range values {
			bytes += len(name) + len(value)
		}
	}
	return bytes
}

// Event has the message's own headers too, but those of NATS.
func (m *message) Event() event.Event {
	header := http.Header(maps.Clone(m.header))
	maps.DeleteFunc(header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Nats-") })
	return event.Event{
		ID: m.id, Source: m.source, Type: eventType, Subject: m.subject, Time: m.at, Header: header, Data: m.data,
	}
}

// DeadLetter publishes the message as it was, with headers that say where it is from and why it
// is there, to a stream, which acknowledges it. A stream keeps one of several with the same id.
func (m *message) DeadLetter(ctx context.Context, reason string) error {
	dead := nats.NewMsg(m.deadLetters.subject)
	dead.Data, dead.Header = m.data, maps.Clone(m.header)
	if dead.Header == nil {
		dead.Header = nats.Header{}
	}
	maps.DeleteFunc(dead.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "Nats-") })
	dead.Header.Set("Goless-Reason", strings.Map(printable, reason))
	dead.Header.Set("Goless-Source", m.source)
	dead.Header.Set("Goless-Id", m.id)
	dead.Header.Set("Goless-Subject", m.subject)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := m.deadLetters.js.PublishMsg(ctx, dead, jetstream.WithMsgID(m.source+"/"+m.id))
	return err
}

// printable keeps a reason within the line of a header.
func printable(r rune) rune {
	if r < ' ' {
		return ' '
	}
	return r
}
