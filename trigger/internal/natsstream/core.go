package natsstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"golang.org/x/sync/semaphore"

	"goless.io/trigger/internal/stream"
)

// waitingBytes limits the messages that wait until they can be held.
const waitingBytes = 32 << 20

// core consumes the messages of a subject until ctx ends. Messages that are waiting then are lost,
// and so are messages that exceed waitingBytes: without a stream, delivery is at most once.
func (c *Consumer) core(ctx context.Context, d *stream.Deliverer, nc *nats.Conn, js jetstream.JetStream) error {
	sub, err := nc.QueueSubscribeSync(c.subject, c.durable)
	if err == nil {
		err = errors.Join(sub.SetPendingLimits(-1, waitingBytes), nc.FlushTimeout(requestTimeout), nc.LastError())
	}
	if err != nil {
		return fmt.Errorf("subscribing to %s: %w", c.subject, err)
	}
	room := semaphore.NewWeighted(heldBytes)
	var held, lost atomic.Int64
	lanes := stream.NewLanes(d, (*message).size, func(_ string, messages []*message) {
		if !deliver(ctx, d, messages) {
			lost.Add(int64(len(messages)))
		}
		for _, m := range messages {
			room.Release(m.weight())
		}
		held.Add(-int64(len(messages)))
	})
	defer func() {
		lanes.Wait()
		waiting, _, _ := sub.Pending() // 0 if unknown
		if n := lost.Load() + int64(waiting); n > 0 {
			d.Sender.Log.Error("messages lost: the connection ended before they were delivered", "messages", n)
		}
	}()
	d.Monitor.Lag(func() (int64, bool) {
		waiting, _, err := sub.Pending()
		return int64(waiting) + held.Load(), err == nil
	})
	d.Monitor.Solved("")
	for {
		msg, err := sub.NextMsgWithContext(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, nats.ErrSlowConsumer):
			d.Sender.Log.Error("messages lost: too many are waiting")
			continue
		case err != nil:
			return err
		}
		m := &message{
			id: cmp.Or(msg.Header.Get(nats.MsgIdHdr), nuid.Next()), source: d.Source, subject: msg.Subject, at: time.Now(),
			header: msg.Header, data: msg.Data, deadLetters: deadLetters{js, d.DeadLetter},
		}
		if room.Acquire(ctx, m.weight()) != nil {
			return nil
		}
		held.Add(1)
		lanes.Add(lane(d, m.subject), m)
	}
}
