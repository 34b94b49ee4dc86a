package natsstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"goless.io/trigger/internal/send"
	"goless.io/trigger/internal/stream"
)

const (
	// ownerKey is in the metadata of consumers that triggers have made, with the trigger's path.
	ownerKey = "goless.io/trigger"

	// ackWait is after how long without a sign of life the servers give a message again.
	ackWait = 15 * time.Second

	// lagTimeout bounds how long somebody who asks for the lag waits.
	lagTimeout = 2 * time.Second

	// fetchWait is how long one request for messages lasts, and so how soon one is made that
	// was lost with its server.
	fetchWait = 5 * time.Second

	// fetchBytes bounds what one request brings.
	fetchBytes = 64 << 20
)

// jetstream takes the messages of a stream.
func (c *Consumer) jetstream(ctx context.Context, d *stream.Deliverer, js jetstream.JetStream) error {
	s := &session{
		Deliverer: d, stream: c.stream, deadLetters: deadLetters{js, d.DeadLetter},
		limit: max(2*d.Concurrency, 16), lanes: stream.NewLanes(d.Concurrency), held: map[uint64]jetstream.Msg{},
	}
	s.left = sync.NewCond(&s.mu)
	var err error
	if s.consumer, err = s.find(ctx, c, js); err != nil {
		return fmt.Errorf("consumer %q of stream %q: %w", c.durable, c.stream, err)
	}
	d.Monitor.Lag(s.lag)
	d.Monitor.Solved("")
	// What it has is kept until all of it is delivered or given back.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go s.keep(alive)
	delivering, stop := context.WithCancel(ctx)
	err = s.take(delivering)
	stop()
	s.lanes.Wait()
	return err
}

// session is what a process has of the messages of a consumer.
type session struct {
	*stream.Deliverer
	consumer    jetstream.Consumer
	stream      string
	deadLetters deadLetters
	lanes       *stream.Lanes
	limit       int // of how many messages it has

	mu   sync.Mutex
	left *sync.Cond               // a message is not held any more
	held map[uint64]jetstream.Msg // by their sequence in the stream
}

// find returns the consumer. One that somebody else has made is taken as it is; otherwise there
// is one that begins with the first message of the stream.
func (s *session) find(ctx context.Context, c *Consumer, js jetstream.JetStream) (jetstream.Consumer, error) {
	have, err := js.Consumer(ctx, c.stream, c.durable)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
	case err != nil:
		return nil, err
	case have.CachedInfo().Config.Metadata[ownerKey] == s.Source:
	case have.CachedInfo().Config.AckPolicy != jetstream.AckExplicitPolicy:
		return nil, errors.New("its ack policy must be explicit")
	default:
		return have, nil
	}
	return js.CreateOrUpdateConsumer(ctx, c.stream, jetstream.ConsumerConfig{
		Durable:       c.durable,
		FilterSubject: c.subject,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       ackWait,
		MaxAckPending: s.limit,
		Metadata:      map[string]string{ownerKey: s.Source},
	})
}

// take takes messages until ctx ends or there is an error. It asks for no more than it may hold,
// because the servers give again what waits for long without a sign of life.
func (s *session) take(ctx context.Context) error {
	if err := s.resume(ctx); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, s.left.Broadcast)
	defer stop()
	for {
		room := s.room(ctx)
		if ctx.Err() != nil {
			return nil
		}
		batch, err := s.consumer.Fetch(room, jetstream.FetchMaxWait(fetchWait), jetstream.FetchMaxBytes(fetchBytes))
		if err == nil {
			err = s.each(ctx, batch, func(msg jetstream.Msg, sequence uint64) { s.begin(ctx, msg, sequence) })
		} else {
			err = s.lasting(ctx, err)
		}
		if err != nil {
			return err
		}
	}
}

// room waits until it may hold more messages, and returns how many.
func (s *session) room(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.held) > s.limit/2 && ctx.Err() == nil {
		s.left.Wait()
	}
	return s.limit - len(s.held)
}

// each calls f for each message of a batch that is not held already, and holds it. At the end
// of ctx it gives back what it has not looked at.
func (s *session) each(ctx context.Context, batch jetstream.MessageBatch, f func(jetstream.Msg, uint64)) error {
	for {
		select {
		case msg, ok := <-batch.Messages():
			if !ok {
				return s.lasting(ctx, batch.Error())
			}
			if sequence, fresh := s.hold(msg); fresh {
				f(msg, sequence)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// lasting returns an error that asking again would meet too, because there is no such consumer
// any more. After another one it waits a little.
func (s *session) lasting(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	s.Sender.Log.Warn("asking for messages", "error", err.Error())
	_, err = s.consumer.Info(ctx)
	for _, lasting := range []error{jetstream.ErrConsumerNotFound, jetstream.ErrStreamNotFound, nats.ErrConnectionClosed} {
		if errors.Is(err, lasting) {
			return err
		}
	}
	send.Sleep(ctx, time.Second)
	return nil
}

// resume takes what a process has had that has ended without giving it back, before what is
// newer: so that nothing overtakes what comes before it. The servers give that again when its
// time is over; what they give before is put aside.
func (s *session) resume(ctx context.Context) error {
	info, err := s.consumer.Info(ctx)
	if err != nil {
		return err
	}
	var newer []func()
	missing := info.NumAckPending
	again := func() error {
		batch, err := s.consumer.FetchNoWait(missing)
		if err != nil {
			return err
		}
		return s.each(ctx, batch, func(msg jetstream.Msg, sequence uint64) {
			if sequence > info.Delivered.Stream {
				newer = append(newer, func() { s.begin(ctx, msg, sequence) })
				return
			}
			missing--
			s.begin(ctx, msg, sequence)
		})
	}
	if missing > 0 {
		err = again()
	}
	if missing > 0 && err == nil {
		s.Sender.Log.Info("waiting for messages that another process has had", "messages", missing, "for", info.Config.AckWait.String())
		send.Sleep(ctx, info.Config.AckWait+time.Second)
		err = again()
	}
	for _, begin := range newer {
		begin()
	}
	return err
}

// hold notes a message, and returns its sequence in the stream. It is not fresh where the
// session has it already, and the servers have given it again.
func (s *session) hold(msg jetstream.Msg) (sequence uint64, fresh bool) {
	meta, err := msg.Metadata()
	if err != nil {
		return 0, false // it is not from a stream
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.held[meta.Sequence.Stream]
	s.held[meta.Sequence.Stream] = msg
	return meta.Sequence.Stream, !has
}

// begin delivers a message after those of the same subject.
func (s *session) begin(ctx context.Context, msg jetstream.Msg, sequence uint64) {
	s.lanes.Go(msg.Subject(), func() {
		m := &message{
			id: s.stream + "/" + strconv.FormatUint(sequence, 10), source: s.Source, subject: msg.Subject(),
			header: msg.Headers(), data: msg.Data(), deadLetters: s.deadLetters,
		}
		if meta, err := msg.Metadata(); err == nil {
			m.at = meta.Timestamp
		}
		done := s.Deliver(ctx, m)
		s.release(sequence, done)
	})
}

// release acknowledges a message, or gives it back.
func (s *session) release(sequence uint64, done bool) {
	s.mu.Lock()
	msg := s.held[sequence]
	delete(s.held, sequence)
	s.left.Signal()
	s.mu.Unlock()
	answer := msg.Nak
	if done {
		answer = msg.Ack
	}
	if err := answer(); err != nil {
		s.Sender.Log.Warn("not acknowledged, so it will come again", "sequence", sequence, "error", err.Error())
	}
}

// keep gives signs of life for what it has.
func (s *session) keep(ctx context.Context) {
	ticker := time.NewTicker(s.consumer.CachedInfo().Config.AckWait / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		for sequence, msg := range s.held {
			if err := msg.InProgress(); err != nil {
				s.Sender.Log.Warn("no sign of life", slog.Uint64("sequence", sequence), slog.Any("error", err))
			}
		}
		s.mu.Unlock()
	}
}

// lag is how many messages wait, those that it has included.
func (s *session) lag() (int64, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lagTimeout)
	defer cancel()
	info, err := s.consumer.Info(ctx)
	if err != nil {
		return 0, false
	}
	return int64(info.NumPending) + int64(info.NumAckPending), true
}
