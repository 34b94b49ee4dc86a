// Package stream delivers the events of a stream to a function, in their order, and says when
// each of them may be acknowledged. It knows no broker: those have packages of their own.
package stream

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

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

	// Concurrency is how many events may be delivered at the same time. Brokers see to it.
	Concurrency int

	// DeadLetter names where events go that the function does not take; "" for nowhere. Then
	// Drop gives them up, and without it they are tried for ever.
	DeadLetter string
	Drop       bool

	// Drain is how long a request that is under way may go on when the context has ended.
	Drain time.Duration

	// Monitor is told what becomes of the events.
	Monitor *Monitor
}

// Deliver returns true once a message may be acknowledged: the function has taken it, or the
// dead letter, or it was dropped. It returns false when the context has ended before that.
func (d *Deliverer) Deliver(ctx context.Context, m Message) bool {
	start := time.Now()
	o := one{Deliverer: d, message: m, event: m.Event(), sender: d.Sender}
	o.sender.Log, o.sender.Tried = d.Sender.Log.With("id", o.event.ID), d.Monitor.tried
	how := o.deliver(ctx)
	if how == interrupted {
		return false
	}
	d.Monitor.ended(how, time.Since(start))
	return true
}

// one is the delivery of one message.
type one struct {
	*Deliverer
	message Message
	event   event.Event
	sender  send.Sender
}

func (o *one) log() *slog.Logger { return o.sender.Log }

func (o *one) deliver(ctx context.Context) outcome {
	reason := o.send(ctx)
	switch {
	case reason == "":
		return delivered
	case ctx.Err() != nil:
		return interrupted
	case o.DeadLetter != "":
		return o.bury(ctx, reason)
	case o.Drop:
		o.log().Error("dropped", "reason", reason)
		return dropped
	}
	return o.block(ctx, reason)
}

// send returns why the function has not taken the event; "" when it has.
func (o *one) send(ctx context.Context) string {
	requests, cancel := lingering(ctx, o.Drain)
	defer cancel()
	err := o.sender.Deliver(ctx, func(context.Context) (*http.Request, error) {
		return o.event.Request(requests, http.MethodPost, o.URL)
	})
	if err != nil {
		return err.Error()
	}
	return ""
}

// lingering returns a context that ends some time after another one.
func lingering(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		send.Sleep(lasting, after)
		cancel()
	})
	return lasting, func() { stop(); cancel() }
}

// bury writes the message to the dead letter, and tries that again until it is there.
func (o *one) bury(ctx context.Context, reason string) outcome {
	defer o.Monitor.Solved(o.event.ID)
	for n := 1; ctx.Err() == nil; n++ {
		err := o.message.DeadLetter(ctx, reason)
		if err == nil {
			o.log().Error("written to the dead letter", "reason", reason)
			return deadLetter
		}
		o.log().Error("the dead letter has not taken the event", "error", err.Error())
		o.Monitor.Problem(o.event.ID, Problem{
			Reason:  DeadLetterFailed,
			Message: "the dead letter " + o.DeadLetter + " has not taken event " + o.event.ID + ", and those after it wait: " + err.Error(),
		})
		send.Sleep(ctx, o.sender.Backoff.Wait(n, 0, rand.Float64()))
	}
	return interrupted
}

// block tries the event once in a while until the function takes it.
func (o *one) block(ctx context.Context, reason string) outcome {
	defer o.Monitor.Solved(o.event.ID)
	o.sender.Tries = 1
	seldom := o.sender.Backoff
	seldom.First = seldom.Max
	for ctx.Err() == nil {
		o.Monitor.Problem(o.event.ID, Problem{
			Reason:  Blocked,
			Message: "the function does not take event " + o.event.ID + ", and those after it wait: " + reason,
		})
		send.Sleep(ctx, seldom.Wait(1, 0, rand.Float64()))
		if reason = o.send(ctx); reason == "" {
			return delivered
		}
	}
	return interrupted
}
