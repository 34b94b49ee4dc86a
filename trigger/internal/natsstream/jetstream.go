package natsstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	// was lost with its server. The end of a process may take so long to which none come.
	fetchWait = 2 * time.Second

	// regainWait is how long one lasts for messages that may not be given again yet.
	regainWait = 500 * time.Millisecond

	// overdue is after how long beyond its time a message that is not given again is given up: the
	// servers, and this process, may be busy.
	overdue = 5 * time.Second

	// lastTimeout bounds how long a process that ends waits until the servers have what it has
	// sent.
	lastTimeout = 3 * time.Second

	// fetchBytes bounds what one request brings.
	fetchBytes = 64 << 20
)

// jetstream takes the messages of a stream.
func (c *Consumer) jetstream(ctx context.Context, d *stream.Deliverer, js jetstream.JetStream) error {
	s := &session{
		Deliverer: d, conn: js.Conn(), stream: c.stream, deadLetters: deadLetters{js, d.DeadLetter},
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
	s.giveBack()
	return err
}

// session is what a process has of the messages of a consumer.
type session struct {
	*stream.Deliverer
	conn        *nats.Conn
	consumer    jetstream.Consumer
	stream      string
	deadLetters deadLetters
	lanes       *stream.Lanes
	limit       int // of how many messages it has

	// Only take uses these: what it has and may not begin yet, and whether it had all that the
	// servers had given, when it had connected again so many times.
	aside      []taken
	complete   bool
	reconnects uint64

	mu   sync.Mutex
	left *sync.Cond               // a message is not held any more
	held map[uint64]jetstream.Msg // by their sequence in the stream
}

// taken is a message that a session has.
type taken struct {
	jetstream.Msg
	sequence uint64 // in the stream
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

// take takes messages until ctx ends or there is an error that asking again would meet too. It
// asks for no more than it may hold, because the servers give again what waits for long without
// a sign of life.
func (s *session) take(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock() // it waits, or has not looked at ctx yet
		defer s.mu.Unlock()
		s.left.Broadcast()
	})
	defer stop()
	for ctx.Err() == nil {
		var err error
		switch {
		case !s.conn.IsConnected():
			send.Sleep(ctx, 100*time.Millisecond) // or all requests would arrive together later
		case s.behind():
			err = s.catchUp(ctx)
		default:
			err = s.follow(ctx)
		}
		switch {
		case lasting(err):
			return err
		case err != nil && ctx.Err() == nil:
			s.Sender.Log.Warn("asking for messages", "error", err.Error())
			s.complete = false
			send.Sleep(ctx, time.Second)
		}
	}
	return nil
}

// lasting tells whether asking again would meet an error too, because there is no such consumer
// any more.
func lasting(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrConnectionClosed)
}

// room waits until it may hold more messages, and returns how many; 0 at the end of ctx.
func (s *session) room(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.held) > s.limit/2 && ctx.Err() == nil {
		s.left.Wait()
	}
	if ctx.Err() != nil {
		return 0
	}
	return s.limit - len(s.held)
}

// ask asks for n messages, and calls f for those that it does not have already. It returns when
// the servers have said that the request is over, and no sooner at the end of the process: what
// they give to somebody who does not listen any more is missing until its time is over.
func (s *session) ask(n int, wait time.Duration, f func(taken)) error {
	batch, err := s.consumer.Fetch(n, jetstream.FetchMaxWait(wait), jetstream.FetchMaxBytes(fetchBytes))
	if err != nil {
		return err
	}
	for msg := range batch.Messages() {
		if m, fresh := s.hold(msg); fresh {
			f(m)
		}
	}
	return batch.Error()
}

// follow takes messages and begins them. Those that come where one before them may be missing
// are put aside.
func (s *session) follow(ctx context.Context) error {
	room := s.room(ctx)
	if room == 0 {
		return nil
	}
	return s.ask(room, fetchWait, func(m taken) {
		if s.behind() {
			s.aside = append(s.aside, m)
		} else {
			s.begin(ctx, m)
		}
	})
}

// behind tells whether the servers may have given what is not here: to a process that has ended,
// or to a connection that was lost.
func (s *session) behind() bool { return !s.complete || s.reconnects != s.conn.Stats().Reconnects }

// catchUp takes what the servers have given that is not here, before what is newer: so that
// nothing overtakes what comes before it. They give it again when its time is over; what they
// give before that is put aside.
func (s *session) catchUp(ctx context.Context) error {
	reconnects, again := s.conn.Stats().Reconnects, s.consumer.CachedInfo().Config.AckWait+overdue
	missing, err := s.missing(ctx)
	if missing > 0 {
		s.Sender.Log.Info("waiting for messages that were given before and are not here", "messages", missing, "for", again.String())
	}
	for end := time.Now().Add(again); missing > 0 && err == nil && ctx.Err() == nil && time.Now().Before(end); {
		missing, err = s.regain(ctx, missing)
	}
	if err != nil || ctx.Err() != nil || reconnects != s.conn.Stats().Reconnects {
		return err
	}
	slices.SortFunc(s.aside, func(a, b taken) int { return cmp.Compare(a.sequence, b.sequence) })
	for _, m := range s.aside {
		s.begin(ctx, m)
	}
	s.aside, s.complete, s.reconnects = nil, true, reconnects
	return nil
}

// regain asks for what is missing, and returns how much still is. Where newer messages have come
// in its place, it waits a little before it asks for more.
func (s *session) regain(ctx context.Context, missing int) (int, error) {
	err := s.ask(missing, regainWait, func(m taken) { s.aside = append(s.aside, m) })
	if err != nil {
		return missing, err
	}
	still, err := s.missing(ctx)
	if still >= missing {
		send.Sleep(ctx, regainWait)
	}
	return still, err
}

// missing is how many messages the servers have given that are neither here nor acknowledged.
// It may be more than that for a moment, because they note later what is acknowledged. After a
// crash they may have forgotten that they gave the last ones that are here, and do not count those.
func (s *session) missing(ctx context.Context) (int, error) {
	info, err := s.consumer.Info(ctx)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := info.NumAckPending
	for sequence := range s.held {
		if sequence <= info.Delivered.Stream {
			missing--
		}
	}
	return missing, nil
}

// hold notes a message. It is not fresh where the session has it already, and the servers have
// given it again.
func (s *session) hold(msg jetstream.Msg) (m taken, fresh bool) {
	meta, err := msg.Metadata()
	if err != nil {
		return taken{}, false // it is not from a stream
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.held[meta.Sequence.Stream]
	s.held[meta.Sequence.Stream] = msg
	return taken{msg, meta.Sequence.Stream}, !has
}

// begin delivers a message after those of the same subject.
func (s *session) begin(ctx context.Context, taken taken) {
	s.lanes.Go(taken.Subject(), func() {
		m := &message{
			id: s.stream + "/" + strconv.FormatUint(taken.sequence, 10), source: s.Source, subject: taken.Subject(),
			header: taken.Headers(), data: taken.Data(), deadLetters: s.deadLetters,
		}
		if meta, err := taken.Metadata(); err == nil {
			m.at = meta.Timestamp
		}
		if s.Deliver(ctx, m) {
			s.release(taken.sequence)
		}
	})
}

// release acknowledges a message.
func (s *session) release(sequence uint64) {
	s.mu.Lock()
	msg := s.held[sequence]
	delete(s.held, sequence)
	s.left.Signal()
	s.mu.Unlock()
	if err := msg.Ack(); err != nil {
		s.Sender.Log.Warn("not acknowledged, so it will come again", "sequence", sequence, "error", err.Error())
	}
}

// giveBack gives back what is not delivered, the oldest first: the servers give it to the next
// process in that order.
func (s *session) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sequence := range slices.Sorted(maps.Keys(s.held)) {
		if err := s.held[sequence].Nak(); err != nil {
			s.Sender.Log.Warn("not given back, so it will come later", "sequence", sequence, "error", err.Error())
		}
	}
	clear(s.held)
	// What is on its way could be lost with the connection.
	if err := s.conn.FlushTimeout(lastTimeout); err != nil {
		s.Sender.Log.Warn("the servers may not know what is delivered, and what is given back", "error", err.Error())
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
