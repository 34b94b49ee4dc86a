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
	"strings"
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

	// fetchWait is how long one request for messages lasts, and so after how long another one is
	// made where it was lost with its server. A process takes up to so long to end.
	fetchWait = 2 * time.Second

	// regainWait is how long one lasts for messages that the servers may not give again yet.
	regainWait = 500 * time.Millisecond

	// answerWait is how much later than its time the end of a request may come. Half a second later
	// the client library gives it up, and does not tell.
	answerWait = 500 * time.Millisecond

	// overdue is after how long beyond its time a message that is not given again is given up: the
	// servers, and this process, may be busy.
	overdue = 5 * time.Second

	// lastTimeout bounds how long a process that ends waits until the servers have what it has
	// sent.
	lastTimeout = 3 * time.Second

	// fetchBytes bounds what one request brings, and heldBytes is how much it may have before it
	// asks for more.
	fetchBytes = 64 << 20
	heldBytes  = 32 << 20
)

// jetstream takes the messages of a stream.
func (c *Consumer) jetstream(ctx context.Context, d *stream.Deliverer, js jetstream.JetStream) error {
	s := &session{
		Deliverer: d, conn: js.Conn(), stream: c.stream, deadLetters: deadLetters{js, d.DeadLetter},
		limit: max(mostHeld(d), 16), held: map[uint64]jetstream.Msg{},
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
	s.lanes = stream.NewLanes(d, (*message).size, func(_ string, messages []*message) { s.deliver(delivering, messages) })
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
	lanes       *stream.Lanes[string, *message]
	limit       int // of how many messages it has

	// Only take uses these. aside is what it has and may not begin yet. complete says that it had
	// all that the servers had given, when the connection had come back as often as reconnects says.
	aside      []*message
	complete   bool
	reconnects uint64

	mu   sync.Mutex
	left *sync.Cond               // a message is not held any more
	held map[uint64]jetstream.Msg // by their sequence in the stream
	size int                      // of those, in bytes
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
		s.mu.Lock() // so that wait, which holds it while it looks at ctx, does not miss the signal
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
			s.problem("fetch", err)
			s.complete = false
			send.Sleep(ctx, time.Second)
		case err == nil:
			s.Monitor.Solved("fetch")
		}
	}
	return nil
}

// problem tells why asking for messages has failed.
func (s *session) problem(key string, err error) {
	s.Monitor.Problem(key, stream.Problem{Reason: stream.NotConnected, Message: "asking for messages of stream " + s.stream + ": " + err.Error()})
}

// lasting tells whether asking again would meet an error too, because there is no such consumer
// any more.
func lasting(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, nats.ErrConnectionClosed)
}

// wait waits until it may hold more messages, and returns how many; 0 at the end of ctx.
func (s *session) wait(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (len(s.held) > s.limit/2 || s.size > heldBytes) && ctx.Err() == nil {
		s.left.Wait()
	}
	if ctx.Err() != nil {
		return 0
	}
	return s.limit - len(s.held)
}

// ask asks for n messages, and calls f for those that it does not have already. It returns when
// the servers have said that the request is over, and no sooner at the end of the process: what
// they give to somebody who does not listen any more is missing until its time is over. So it is
// with what they give to a request that they are too busy to end in time.
func (s *session) ask(n int, wait time.Duration, f func(*message)) error {
	most := s.consumer.CachedInfo().Config // of a consumer that somebody else has made
	wait, bytes := within(wait, most.MaxRequestExpires), within(fetchBytes, most.MaxRequestMaxBytes)
	begun, before, empty := time.Now(), s.conn.LastError(), true
	last := begun // that something came
	batch, err := s.consumer.Fetch(within(n, most.MaxRequestBatch), jetstream.FetchMaxWait(wait), jetstream.FetchMaxBytes(bytes))
	if err != nil {
		return err
	}
	for msg := range batch.Messages() {
		empty, last = false, time.Now()
		if m, fresh := s.hold(msg); fresh {
			f(m)
		}
	}
	if time.Since(last) > wait+answerWait {
		s.complete = false
	}
	// A user who may not ask gets no answer, but an error of the connection.
	if latest := s.conn.LastError(); errors.Is(latest, nats.ErrPermissionViolation) && !errors.Is(latest, before) && strings.Contains(latest.Error(), ".MSG.NEXT.") {
		s.problem("forbidden", latest)
	} else {
		s.Monitor.Solved("forbidden")
	}
	if err := batch.Error(); err != nil || !empty || time.Since(begun) > wait/2 {
		return err
	}
	// The client library does not tell what the servers have said.
	return fmt.Errorf("the next message is larger than the %d bytes that a request may ask for, by max_bytes of the consumer", bytes)
}

// within returns no more than a limit, where there is one.
func within[N int | time.Duration](n, limit N) N {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}

// follow takes messages and begins them. Those that come where one before them may be missing
// are put aside.
func (s *session) follow(ctx context.Context) error {
	n := s.wait(ctx)
	if n == 0 {
		return nil
	}
	return s.ask(n, fetchWait, func(m *message) {
		if s.behind() {
			s.aside = append(s.aside, m)
		} else {
			s.begin(m)
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
	slices.SortFunc(s.aside, func(a, b *message) int { return cmp.Compare(a.sequence, b.sequence) })
	for _, m := range s.aside {
		s.begin(m)
	}
	s.aside, s.complete, s.reconnects = nil, true, reconnects
	return nil
}

// regain asks for what is missing, and returns how much still is. Where newer messages have come
// in its place, it waits a little before it asks for more.
func (s *session) regain(ctx context.Context, missing int) (int, error) {
	err := s.ask(missing, regainWait, func(m *message) { s.aside = append(s.aside, m) })
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
func (s *session) hold(msg jetstream.Msg) (m *message, fresh bool) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, false // it is not from a stream
	}
	m = &message{
		id: s.stream + "/" + strconv.FormatUint(meta.Sequence.Stream, 10), source: s.Source, subject: msg.Subject(), at: meta.Timestamp,
		header: msg.Headers(), data: msg.Data(), deadLetters: s.deadLetters, sequence: meta.Sequence.Stream,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, has := s.held[m.sequence]
	s.held[m.sequence] = msg
	if !has {
		s.size += m.size()
	}
	return m, !has
}

// begin makes a message be delivered after those of the same subject.
func (s *session) begin(m *message) { s.lanes.Add(lane(s.Deliverer, m.subject), m) }

// deliver delivers messages, and acknowledges them.
func (s *session) deliver(ctx context.Context, messages []*message) {
	if deliver(ctx, s.Deliverer, messages) {
		for _, m := range messages {
			s.release(m)
		}
	}
}

// release acknowledges a message.
func (s *session) release(m *message) {
	s.mu.Lock()
	msg := s.held[m.sequence] // as it was given last
	delete(s.held, m.sequence)
	s.size -= m.size()
	s.left.Signal()
	s.mu.Unlock()
	if err := msg.Ack(); err != nil {
		s.Sender.Log.Warn("not acknowledged, so it will come again", "sequence", m.sequence, "error", err.Error())
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
