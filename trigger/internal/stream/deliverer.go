// Package stream delivers the events of a stream to a function and reports when each event may be
// acknowledged. Events with the same key, such as a partition, are delivered in order. It does not
// depend on a broker; each broker has its own package.
package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"goless.io/trigger/internal/delivery"
)

// A Message is a message from a broker.
type Message interface {
	// Event returns the event to deliver.
	Event() delivery.Event

	// DeadLetter writes the message and the reason to the dead-letter destination, and returns when
	// they are stored. It is called only if such a destination is configured.
	DeadLetter(ctx context.Context, reason string) error
}

// A Deliverer delivers messages. It is safe for concurrent use.
type Deliverer struct {
	// URL is the URL of the function, including the path. Source is the source of the events.
	URL, Source string

	// Sender sends the requests. Its Tries is the maximum number of attempts for an event.
	Sender delivery.Sender

	// Concurrency is the maximum number of concurrent requests. Batch is the maximum number of
	// events in a request; 0 means that each request contains one event in binary content mode.
	// Lanes enforces both limits.
	Concurrency, Batch int

	// DeadLetter is the dead-letter destination (a topic or a subject), for events that the
	// function does not accept. If it is "", these events are discarded if Drop is true, and
	// retried indefinitely if Drop is false.
	DeadLetter string
	Drop       bool

	// Drain is how long a running request may continue after the context has ended.
	Drain time.Duration

	// Monitor receives the outcomes and problems.
	Monitor *Monitor
}

// Deliver returns true when the messages may be acknowledged: the function has accepted them, or
// they are in the dead-letter destination or dropped. It returns false if the context ends before
// that. It is called with one message, or with several messages that are delivered together if
// Batch is set.
func (d *Deliverer) Deliver(ctx context.Context, messages ...Message) bool {
	start := time.Now()
	p := parcel{Deliverer: d, messages: messages, events: make([]delivery.Event, len(messages)), sender: d.Sender}
	for i, m := range messages {
		p.events[i] = m.Event()
	}
	p.sender.About, p.sender.Tried = []any{"id", p.id(), "events", len(messages)}, p.tried
	defer d.Monitor.Solved(p.id())
	how := p.deliver(ctx)
	if how == interrupted {
		return false
	}
	d.Monitor.ended(how, len(messages), time.Since(start))
	return true
}

// longPause is how long a function may not receive events, because it starts or is busy, before
// this is reported as a problem.
const longPause = time.Minute

// A parcel contains messages that are delivered together.
type parcel struct {
	*Deliverer
	messages []Message // not yet in the dead-letter destination
	events   []delivery.Event
	sender   delivery.Sender
	paused   time.Time // since when the function has not received the events; zero if it has
}

func (p *parcel) log() *slog.Logger { return p.sender.Log.With(p.sender.About...) }

// id returns the ID of the first event.
func (p *parcel) id() string { return p.events[0].ID }

// name returns the name of the parcel for messages to users.
func (p *parcel) name() string {
	if len(p.events) > 1 {
		return fmt.Sprintf("the batch of %d events starting at %s", len(p.events), p.id())
	}
	return "event " + p.id()
}

// tried records the verdict of an attempt.
func (p *parcel) tried(v delivery.Verdict, reason string) {
	p.Monitor.tried(v)
	switch paused := !p.paused.IsZero(); {
	case v == delivery.Pause && !paused:
		p.paused = time.Now()
	case v != delivery.Pause && paused:
		p.paused = time.Time{}
		p.Monitor.Solved(p.id())
	case paused && time.Since(p.paused) > longPause:
		p.Monitor.Problem(p.id(), Problem{
			Reason:  Blocked,
			Message: fmt.Sprintf("the function has not received %s for more than a minute, and later events wait: %s", p.name(), reason),
		})
	}
}

func (p *parcel) deliver(ctx context.Context) Outcome {
	err := p.send(ctx)
	switch {
	case err == nil:
		return Delivered
	case ctx.Err() != nil:
		return interrupted
	case p.DeadLetter != "":
		return p.deadLetter(ctx, err.Error())
	case p.Drop:
		p.log().Error("dropped", "reason", err.Error())
		return Dropped
	}
	return p.block(ctx, err)
}

// send returns the reason why the function has not accepted the events, or nil if it has.
func (p *parcel) send(ctx context.Context) error {
	requests, cancel := drainContext(ctx, p.Drain)
	defer cancel()
	return p.sender.Deliver(ctx, func(context.Context) (*http.Request, error) {
		if p.Batch > 0 {
			return delivery.BatchRequest(requests, http.MethodPost, p.URL, p.events)
		}
		return p.events[0].Request(requests, http.MethodPost, p.URL)
	})
}

// abortKey is the context key of WithAbort.
type abortKey struct{}

// WithAbort returns a context for Deliver. When abort ends, running requests are canceled
// immediately instead of after Drain.
func WithAbort(ctx, abort context.Context) context.Context {
	return context.WithValue(ctx, abortKey{}, abort)
}

// drainContext returns a context that ends some time after ctx, or immediately when it is aborted.
func drainContext(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		delivery.Sleep(lasting, after)
		cancel()
	})
	abort, ok := ctx.Value(abortKey{}).(context.Context)
	if !ok {
		return lasting, func() { stop(); cancel() }
	}
	stopAbort := context.AfterFunc(abort, cancel)
	return lasting, func() { stop(); stopAbort(); cancel() }
}

// deadLetter writes the messages to the dead-letter destination, and retries until they are stored.
func (p *parcel) deadLetter(ctx context.Context, reason string) Outcome {
	for n := 1; ctx.Err() == nil; n++ {
		err := p.writeDeadLetters(ctx, reason)
		if err == nil {
			p.log().Error("written to the dead letter", "reason", reason)
			return DeadLettered
		}
		p.log().Error("writing to the dead letter failed", "error", err.Error())
		p.Monitor.Problem(p.id(), Problem{
			Reason:  DeadLetterFailed,
			Message: "the dead letter " + p.DeadLetter + " did not accept " + p.name() + ", and later events wait: " + err.Error(),
		})
		delivery.Sleep(ctx, p.sender.Backoff.Wait(n, 0, rand.Float64()))
	}
	return interrupted
}

// writeDeadLetters writes the remaining messages to the dead-letter destination in order.
func (p *parcel) writeDeadLetters(ctx context.Context, reason string) error {
	for ; len(p.messages) > 0; p.messages = p.messages[1:] {
		if err := p.messages[0].DeadLetter(ctx, reason); err != nil {
			return err
		}
	}
	return nil
}

// block retries the events at the maximum delay, or later if Retry-After requests it, until the
// function accepts them.
func (p *parcel) block(ctx context.Context, err error) Outcome {
	p.sender.Tries = 1
	seldom := p.sender.Backoff
	seldom.First = seldom.Max
	for ctx.Err() == nil {
		p.Monitor.Problem(p.id(), Problem{
			Reason:  Blocked,
			Message: "the function does not accept " + p.name() + ", and later events wait: " + err.Error(),
		})
		var least time.Duration
		if undelivered, ok := errors.AsType[*delivery.UndeliveredError](err); ok {
			least = undelivered.RetryAfter
		}
		delivery.Sleep(ctx, seldom.Wait(1, least, rand.Float64()))
		if err = p.send(ctx); err == nil {
			return Delivered
		}
	}
	return interrupted
}
