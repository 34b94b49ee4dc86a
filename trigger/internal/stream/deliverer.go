// Package stream delivers the events of a stream to a function, in their order, and says when
// each of them may be acknowledged. It knows no broker: those have packages of their own.
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
	"goless.io/trigger/internal/event"
	"goless.io/trigger/internal/send"
)

// A Message is what a broker has given.
type Message interface {
	// Event is what the function gets.
	Event() event.Event

	// DeadLetter writes the message to where those go that the function does not take, with
	// the reason, and returns once it is there. It is called only where there is such a place.
	DeadLetter(ctx context.Context, reason string) error
}

// A Deliverer delivers messages. It may be used by several goroutines at the same time.
type Deliverer struct {
	// URL is where the function answers, with the path, and Source that of the events.
	URL, Source string

	// Sender makes the requests. Its Tries are those of an event.
	Sender send.Sender

	// Concurrency is how many requests there may be at the same time, and Batch how many events
	// one of them has at most; 0 for one event that is no batch. Lanes see to both.
	Concurrency, Batch int

	// DeadLetter names where events go that the function does not take; "" for nowhere. Then
	// Drop gives them up, and without it they are tried for ever.
	DeadLetter string
	Drop       bool

	// Drain is how long a request that is under way may go on when the context has ended.
	Drain time.Duration

	// Monitor is told what becomes of the events.
	Monitor *Monitor
}

// Deliver returns true once messages may be acknowledged: the function has taken them, or the dead
// letter, or they were dropped. It returns false when the context has ended before that. There is
// one message, or with Batch several, which are delivered together.
func (d *Deliverer) Deliver(ctx context.Context, messages ...Message) bool {
	start := time.Now()
	p := parcel{Deliverer: d, messages: messages, events: make([]event.Event, len(messages)), sender: d.Sender}
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

// longPause is how long a function may not see events, because it starts or is busy, until that is
// told as a problem.
const longPause = time.Minute

// A parcel is messages that are delivered together.
type parcel struct {
	*Deliverer
	messages []Message // those that are not in the dead letter
	events   []event.Event
	sender   send.Sender
	paused   time.Time // since when the function has not seen them; zero where it has
}

func (p *parcel) log() *slog.Logger { return p.sender.Log.With(p.sender.About...) }

// id is that of the first event.
func (p *parcel) id() string { return p.events[0].ID }

// name is for messages to the user.
func (p *parcel) name() string {
	if len(p.events) > 1 {
		return fmt.Sprintf("the batch of %d events from %s on", len(p.events), p.id())
	}
	return "event " + p.id()
}

// tried notes what a try means.
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
			Message: fmt.Sprintf("the function has not seen %s for more than a minute, and those after it wait: %s", p.name(), reason),
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
		return p.bury(ctx, err.Error())
	case p.Drop:
		p.log().Error("dropped", "reason", err.Error())
		return Dropped
	}
	return p.block(ctx, err)
}

// send returns why the function has not taken the events; nil when it has.
func (p *parcel) send(ctx context.Context) error {
	requests, cancel := lingering(ctx, p.Drain)
	defer cancel()
	return p.sender.Deliver(ctx, func(context.Context) (*http.Request, error) {
		if p.Batch > 0 {
			return event.BatchRequest(requests, http.MethodPost, p.URL, p.events)
		}
		return p.events[0].Request(requests, http.MethodPost, p.URL)
	})
}

// abortKey is the key of the context that WithAbort adds.
type abortKey struct{}

// WithAbort returns a context for Deliver. When abort ends, requests end at once, without the Drain.
func WithAbort(ctx, abort context.Context) context.Context {
	return context.WithValue(ctx, abortKey{}, abort)
}

// lingering returns a context that ends some time after another one, or at once when that is aborted.
func lingering(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		send.Sleep(lasting, after)
		cancel()
	})
	abort, ok := ctx.Value(abortKey{}).(context.Context)
	if !ok {
		return lasting, func() { stop(); cancel() }
	}
	stopAbort := context.AfterFunc(abort, cancel)
	return lasting, func() { stop(); stopAbort(); cancel() }
}

// bury writes the messages to the dead letter, and tries that again until they are there.
func (p *parcel) bury(ctx context.Context, reason string) Outcome {
	for n := 1; ctx.Err() == nil; n++ {
		err := p.buryAll(ctx, reason)
		if err == nil {
			p.log().Error("written to the dead letter", "reason", reason)
			return DeadLettered
		}
		p.log().Error("the dead letter has not taken the event", "error", err.Error())
		p.Monitor.Problem(p.id(), Problem{
			Reason:  DeadLetterFailed,
			Message: "the dead letter " + p.DeadLetter + " has not taken " + p.name() + ", and those after it wait: " + err.Error(),
		})
		send.Sleep(ctx, p.sender.Backoff.Wait(n, 0, rand.Float64()))
	}
	return interrupted
}

// buryAll writes the messages that are not in the dead letter, one after the other.
func (p *parcel) buryAll(ctx context.Context, reason string) error {
	for ; len(p.messages) > 0; p.messages = p.messages[1:] {
		if err := p.messages[0].DeadLetter(ctx, reason); err != nil {
			return err
		}
	}
	return nil
}

// block tries the events once in a while until the function takes them, and not before it asks for that
// with Retry-After.
func (p *parcel) block(ctx context.Context, err error) Outcome {
	p.sender.Tries = 1
	seldom := p.sender.Backoff
	seldom.First = seldom.Max
	for ctx.Err() == nil {
		p.Monitor.Problem(p.id(), Problem{
			Reason:  Blocked,
			Message: "the function does not take " + p.name() + ", and those after it wait: " + err.Error(),
		})
		var least time.Duration
		if undelivered, ok := errors.AsType[*send.UndeliveredError](err); ok {
			least = undelivered.RetryAfter
		}
		send.Sleep(ctx, seldom.Wait(1, least, rand.Float64()))
		if err = p.send(ctx); err == nil {
			return Delivered
		}
	}
	return interrupted
}
