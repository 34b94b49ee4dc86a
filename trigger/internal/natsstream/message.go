package natsstream

import (
	"context"
	"errors"
	"net/http"
	"strconv"
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

	// Of a message of a stream: its sequence there, and the message as the servers have given it last.
	// again says that it was given before.
	sequence uint64
	given    jetstream.Msg
	again    bool
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

// weight is what it takes of heldBytes.
func (m *message) weight() int64 { return int64(min(m.size()+messageOverhead, heldBytes)) }

// Event has the message's own headers too.
func (m *message) Event() event.Event {
	return event.Event{
		ID: m.id, Source: m.source, Type: eventType, Subject: m.subject, Time: m.at, Header: http.Header(m.ownHeader()), Data: m.data,
	}
}

// ownHeader returns a copy of the headers without those of NATS.
func (m *message) ownHeader() nats.Header {
	header := nats.Header{}
	for name, values := range m.header {
		if !strings.HasPrefix(name, "Nats-") {
			header[name] = values
		}
	}
	return header
}

// DeadLetter publishes the message as it was, with headers that say where it is from and why it
// is there, to a stream, which acknowledges it. A stream keeps one of several with the same id. Where
// the message is too large with those headers, it is published without its data, and where that is too
// large too, without its own headers.
func (m *message) DeadLetter(ctx context.Context, reason string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	dead := nats.NewMsg(m.deadLetters.subject)
	dead.Data, dead.Header = m.data, m.ownHeader()
	m.describe(dead.Header, reason)
	err := m.deadLetters.publish(ctx, dead, m.source+"/"+m.id)
	for _, header := range []nats.Header{dead.Header, {}} {
		if !tooLarge(err) {
			break
		}
		dead.Data, dead.Header = nil, header
		m.describe(header, reason)
		header.Set("Goless-Truncated", strconv.Itoa(len(m.data)))
		err = m.deadLetters.publish(ctx, dead, m.source+"/"+m.id)
	}
	return err
}

// describe adds where the message is from, and why it is in the dead letter.
func (m *message) describe(header nats.Header, reason string) {
	header.Set("Goless-Reason", strings.Map(printable, reason))
	header.Set("Goless-Source", m.source)
	header.Set("Goless-Id", m.id)
	header.Set("Goless-Subject", m.subject)
}

func (d deadLetters) publish(ctx context.Context, msg *nats.Msg, id string) error {
	_, err := d.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	return err
}

// messageTooLarge is the code of the error for a message that is larger than a stream allows.
const messageTooLarge jetstream.ErrorCode = 10054

// tooLarge reports whether the client library, or a stream, has rejected a message by its size.
func tooLarge(err error) bool {
	var rejected *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &rejected) && rejected.ErrorCode == messageTooLarge
}

// printable keeps a reason within the line of a header.
func printable(r rune) rune {
	if r < ' ' {
		return ' '
	}
	return r
}
