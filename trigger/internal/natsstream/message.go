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

	"goless.io/trigger/internal/delivery"
)

// eventType is the type of the events.
const eventType = "io.goless.nats.message"

// deadLetters is the destination of messages that the function does not accept.
type deadLetters struct {
	js      jetstream.JetStream
	subject string
}

// message is a NATS message.
type message struct {
	id, source, subject string
	at                  time.Time
	header              nats.Header
	data                []byte
	deadLetters         deadLetters

	// Only for messages of a stream: the sequence, the last delivery by the servers, and whether it
	// was delivered before.
	sequence uint64
	given    jetstream.Msg
	again    bool
}

// size returns the approximate size in bytes.
func (m *message) size() int {
	bytes := 256 + len(m.data)
	for name, values := range m.header {
		for _, value := range values {
			bytes += len(name) + len(value)
		}
	}
	return bytes
}

// weight returns the share of heldBytes.
func (m *message) weight() int64 { return int64(min(m.size()+messageOverhead, heldBytes)) }

// Event returns the event, with the headers of the message.
func (m *message) Event() delivery.Event {
	return delivery.Event{
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

// DeadLetter publishes the message to the dead-letter subject, with headers for its origin and the
// reason, and waits for the acknowledgement of a stream. The stream removes duplicates by message
// ID. A message that is too large with these headers is published without its data and, if
// necessary, without its own headers.
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

// describe adds the headers for the origin of the message and the reason.
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

// messageTooLarge is the error code for a message that is larger than a stream allows.
const messageTooLarge jetstream.ErrorCode = 10054

// tooLarge reports whether the client library or a stream has rejected a message because of its
// size.
func tooLarge(err error) bool {
	var rejected *jetstream.APIError
	return errors.Is(err, nats.ErrMaxPayload) || errors.As(err, &rejected) && rejected.ErrorCode == messageTooLarge
}

// printable replaces control characters, which are not valid in a header.
func printable(r rune) rune {
	if r < ' ' {
		return ' '
	}
	return r
}
