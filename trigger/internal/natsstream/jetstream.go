package natsstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"goless.io/trigger/internal/send"
	"goless.io/trigger/internal/stream"
)

const (
	// ackWait is after how long without a sign of life the servers give a message again.
	ackWait = 15 * time.Second

	// lagTimeout bounds how long a request for the lag takes.
	lagTimeout = 2 * time.Second

	// watchInterval is the time between two looks at the consumer.
	watchInterval = 5 * time.Second

	// fetchWait is how long one request for messages lasts, and so after how long another one is
	// made where it was lost with its server. A process takes up to so long to end.
	fetchWait = 2 * time.Second

	// answerWait is how much later than its time the end of a request may come. Half a second later
	// the client library gives it up without an error.
	answerWait = 500 * time.Millisecond

	// lastTimeout bounds how long a process that ends waits until the servers have what it has
	// sent.
	lastTimeout = 3 * time.Second

	// heldBytes bounds what a session holds: messages that the servers have given and that are not
	// delivered. More is held only of a message that is larger than half of it. messageOverhead is
	// what a message takes beside its data and headers.
	heldBytes       = 32 << 20
	messageOverhead = 1 << 10
)

// jetstream takes the messages of a stream.
func (c *Consumer) jetstream(ctx context.Context, d *stream.Deliverer, js jetstream.JetStream) error {
	s := &session{
		Deliverer: d, conn: js.Conn(), stream: c.stream, subject: c.subject, deadLetters: deadLetters{js, d.DeadLetter},
		limit: max(mostHeld(d), 16), held: map[uint64]*message{},
	}
	s.left = sync.NewCond(&s.mu)
	if err := s.find(ctx, c.durable, js); err != nil {
		return fmt.Errorf("consumer %q of stream %q: %w", c.durable, c.stream, err)
	}
	delivering, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.stop = stop
	d.Monitor.Lag(s.lag)
	d.Monitor.Solved("")
	// What it holds is kept until all of it is delivered or given back.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go s.keep(alive)
	go s.watch(alive)
	s.lanes = stream.NewLanes(d, (*message).size, func(_ string, messages []*message) { s.deliver(delivering, messages) })
	if err := s.take(delivering); err != nil {
		s.abandon(err)
	}
	s.lanes.Wait()
	s.giveBack()
	if s.abandoned.Load() {
		return fmt.Errorf("consumer %q of stream %q: %w", s.consumer.CachedInfo().Name, c.stream, context.Cause(delivering))
	}
	return nil
}

// session is what a process has of the messages of a consumer.
type session struct {
	*stream.Deliverer
	conn            *nats.Conn
	consumer        jetstream.Consumer
	created         time.Time // when the consumer was
	stream, subject string
	deadLetters     deadLetters
	lanes           *stream.Lanes[string, *message]
	limit           int // of how many messages it holds

	// abandoned says that the consumer is another one, or is not used: nothing is acknowledged or given
	// back. stop ends the session with the cause.
	abandoned atomic.Bool
	stop      context.CancelCauseFunc

	// Only take uses these. aside is what it holds and may not begin yet. complete says that it held
	// all that the servers had given, when the connection had come back as often as reconnects says.
	aside      []*message
	complete   bool
	reconnects uint64

	mu   sync.Mutex
	left *sync.Cond          // a message is not held any more
	held map[uint64]*message // by their sequence in the stream
	size int64               // of those, in bytes
}

// abandon ends the session: the servers get no acknowledgement and no message back, because they would
// take them for those of another message, or use up a delivery.
func (s *session) abandon(cause error) {
	s.abandoned.Store(true)
	s.stop(cause)
}

// info returns the state of the consumer. It ends the session where the consumer is gone or another one,
// as after its stream was deleted and created again, or where it has become one that is not used.
func (s *session) info(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	info, err := s.consumer.Info(ctx)
	if err != nil && !lasting(err) {
		return nil, err
	}
	if err == nil && !info.Created.Equal(s.created) {
		err = errRecreated
	}
	if err == nil {
		err = usable(info.Config, s.subject)
	}
	if err != nil {
		s.abandon(err)
	}
	return info, err
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

// errRecreated is the end of a session whose stream or consumer was deleted and created again.
var errRecreated = errors.New("it was deleted and created again")

// lasting reports whether asking again would meet an error too, because there is no such consumer
// any more.
func lasting(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrStreamNotFound) ||
		errors.Is(err, nats.ErrConnectionClosed)
}

// wait waits until it may hold more messages, and returns how many; 0 at the end of ctx.
func (s *session) wait(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for (len(s.held) > s.limit/2 || s.size > heldBytes/2) && ctx.Err() == nil {
		s.left.Wait()
	}
	if ctx.Err() != nil {
		return 0
	}
	return s.limit - len(s.held)
}

// request returns how many bytes and messages one request asks for at most. With those the session
// holds no more than heldBytes, or one message that is larger.
func (s *session) request(n int) (messages, bytes int) {
	most := s.consumer.CachedInfo().Config // of a consumer of another owner
	bytes = max(heldBytes/2, int(s.conn.MaxPayload())+messageOverhead)
	return within(min(n, bytes/messageOverhead), most.MaxRequestBatch), within(bytes, most.MaxRequestMaxBytes)
}

// ask asks for n messages, and calls f for those that it does not have already. It returns when
// the servers have said that the request is over, and no sooner at the end of the process: what
// they give to somebody who does not listen any more is missing until its time is over. So it is
// with what they give to a request that they are too busy to end in time.
func (s *session) ask(n int, wait time.Duration, f func(*message)) error {
	wait = within(wait, s.consumer.CachedInfo().Config.MaxRequestExpires)
	n, bytes := s.request(n)
	begun, before, empty := time.Now(), s.conn.LastError(), true
	last := begun // that something came
	batch, err := s.consumer.Fetch(n, jetstream.FetchMaxWait(wait), jetstream.FetchMaxBytes(bytes))
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

// hold notes a message. It is not fresh where the session has it already, and the servers have
// given it again.
func (s *session) hold(msg jetstream.Msg) (m *message, fresh bool) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, false // it is not from a stream
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.held[meta.Sequence.Stream]; m != nil {
		if !m.at.Equal(meta.Timestamp) {
			s.abandon(errRecreated)
		}
		m.given = msg
		return m, false
	}
	m = &message{
		id:     fmt.Sprintf("%s/%d/%d", s.stream, meta.Sequence.Stream, meta.Timestamp.UnixNano()),
		source: s.Source, subject: msg.Subject(), at: meta.Timestamp, header: msg.Headers(), data: msg.Data(),
		deadLetters: s.deadLetters, sequence: meta.Sequence.Stream, again: meta.NumDelivered > 1, given: msg,
	}
	s.held[m.sequence] = m
	s.size += m.weight()
	return m, true
}

// drop forgets a message, and returns it as the servers have given it last.
func (s *session) drop(m *message) jetstream.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, m.sequence)
	s.size -= m.weight()
	s.left.Signal()
	return m.given
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
	msg := s.drop(m)
	if s.abandoned.Load() {
		return
	}
	if err := msg.Ack(); err != nil {
		s.Sender.Log.Warn("not acknowledged, so it will come again", "sequence", m.sequence, "error", err.Error())
	}
}

// handBack gives a message back, which the servers give again at once.
func (s *session) handBack(m *message) {
	if err := s.drop(m).Nak(); err != nil {
		s.Sender.Log.Warn("not given back, so it will come later", "sequence", m.sequence, "error", err.Error())
	}
}

// giveBack gives back what is not delivered, the oldest first: the servers give it to the next
// process in that order.
func (s *session) giveBack() {
	if s.abandoned.Load() {
		return
	}
	for _, sequence := range slices.Sorted(maps.Keys(s.held)) {
		s.handBack(s.held[sequence])
	}
	// What is on its way could be lost with the connection.
	if err := s.conn.FlushTimeout(lastTimeout); err != nil {
		s.Sender.Log.Warn("the servers may not know what is delivered, and what is given back", "error", err.Error())
	}
}

// watch looks at the consumer, which can change or be deleted while the session asks for nothing.
func (s *session) watch(ctx context.Context) {
	for ctx.Err() == nil && !s.abandoned.Load() {
		send.Sleep(ctx, watchInterval)
		if _, err := s.info(ctx); err != nil && ctx.Err() == nil {
			s.Sender.Log.Warn("asking for the state of the consumer", "error", err.Error())
		}
	}
}

// keep gives signs of life for what it holds.
func (s *session) keep(ctx context.Context) {
	ticker := time.NewTicker(s.consumer.CachedInfo().Config.AckWait / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.abandoned.Load() {
			return
		}
		s.mu.Lock()
		for sequence, m := range s.held {
			if err := m.given.InProgress(); err != nil {
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
	info, err := s.info(ctx)
	if err != nil {
		return 0, false
	}
	return int64(info.NumPending) + int64(info.NumAckPending), true
}
