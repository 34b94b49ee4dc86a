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

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

const (
	// ackWait is the time without progress after which the servers redeliver a message.
	ackWait = 15 * time.Second

	// lagTimeout limits a request for the lag.
	lagTimeout = 2 * time.Second

	// watchInterval is the interval between checks of the consumer.
	watchInterval = 5 * time.Second

	// fetchWait is the duration of one request for messages. If a request is lost together with its
	// server, the next one follows after this time. The termination of a process can take as long.
	fetchWait = 2 * time.Second

	// answerWait is the maximum delay of the end of a request. The client library abandons the
	// request, without an error, another half second later.
	answerWait = 500 * time.Millisecond

	// lastTimeout limits how long a terminating process waits until the servers have received
	// everything it has sent.
	lastTimeout = 3 * time.Second

	// heldBytes limits the messages that a session holds: those that are fetched and not delivered.
	// A single message that is larger than half of it may exceed the limit. messageOverhead is the
	// size of a message in addition to its data and headers.
	heldBytes       = 32 << 20
	messageOverhead = 1 << 10
)

// jetstream consumes the messages of a stream.
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
	// Keep the held messages until all of them are delivered or returned.
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	go s.keep(alive)
	go s.watch(alive)
	s.lanes = stream.NewLanes(d, (*message).size, func(_ string, messages []*message) { s.deliver(delivering, messages) })
	if err := s.take(delivering); err != nil {
		s.abandon(err)
	}
	s.lanes.Wait()
	s.nakAll()
	if s.abandoned.Load() {
		return fmt.Errorf("consumer %q of stream %q: %w", s.consumer.CachedInfo().Name, c.stream, context.Cause(delivering))
	}
	return nil
}

// session is the state of the consumption of messages of one consumer.
type session struct {
	*stream.Deliverer
	conn            *nats.Conn
	consumer        jetstream.Consumer
	created         time.Time // when the consumer was created
	stream, subject string
	deadLetters     deadLetters
	lanes           *stream.Lanes[string, *message]
	limit           int // maximum number of held messages

	// abandoned is true if the consumer was replaced or cannot be used. Messages are then neither
	// acknowledged nor returned. stop ends the session with a cause.
	abandoned atomic.Bool
	stop      context.CancelCauseFunc

	// Only take uses these fields. aside contains held messages that may not be queued yet.
	// complete is true if the session held all messages that the servers had delivered when the
	// connection had been re-established reconnects times.
	aside      []*message
	complete   bool
	reconnects uint64

	mu   sync.Mutex
	left *sync.Cond          // signals that a message is no longer held
	held map[uint64]*message // by sequence in the stream
	size int64               // of the held messages, in bytes
}

// abandon ends the session without acknowledging or returning messages: the servers would apply
// that to other messages, or count it as a delivery.
func (s *session) abandon(cause error) {
	s.abandoned.Store(true)
	s.stop(cause)
}

// info returns the state of the consumer. It ends the session if the consumer was deleted or
// recreated, for example with its stream, or can no longer be used.
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

// take consumes messages until ctx ends or an error occurs that would occur again. It requests no
// more messages than the session may hold, because the servers redeliver messages that wait for
// long without progress.
func (s *session) take(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock() // wait holds the lock while it checks ctx, and so does not miss the signal
		defer s.mu.Unlock()
		s.left.Broadcast()
	})
	defer stop()
	for ctx.Err() == nil {
		var err error
		switch {
		case !s.conn.IsConnected():
			delivery.Sleep(ctx, 100*time.Millisecond) // otherwise all requests would arrive together after the reconnect
		case s.behind():
			err = s.catchUp(ctx)
		default:
			err = s.follow(ctx)
		}
		switch {
		case lasting(err):
			return err
		case err != nil && ctx.Err() == nil:
			s.Sender.Log.Warn("fetching messages", "error", err.Error())
			s.problem("fetch", err)
			s.complete = false
			delivery.Sleep(ctx, time.Second)
		case err == nil:
			s.Monitor.Solved("fetch")
		}
	}
	return nil
}

// problem reports why fetching messages has failed.
func (s *session) problem(key string, err error) {
	s.Monitor.Problem(key, stream.Problem{Reason: stream.NotConnected, Message: "fetching messages of stream " + s.stream + ": " + err.Error()})
}

// errRecreated ends a session whose stream or consumer was deleted and recreated.
var errRecreated = errors.New("deleted and created again")

// lasting reports whether an error would occur again because the consumer does not exist.
func lasting(err error) bool {
	return errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrConsumerDeleted) || errors.Is(err, jetstream.ErrStreamNotFound) ||
		errors.Is(err, nats.ErrConnectionClosed)
}

// wait waits until the session may hold more messages and returns their number. It returns 0 when
// ctx ends.
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

// request returns the maximum number of messages and bytes for one request. With them the session
// holds at most heldBytes, or one larger message.
func (s *session) request(n int) (messages, bytes int) {
	most := s.consumer.CachedInfo().Config // limits of a consumer of another owner
	bytes = max(heldBytes/2, int(s.conn.MaxPayload())+messageOverhead)
	return within(min(n, bytes/messageOverhead), most.MaxRequestBatch), within(bytes, most.MaxRequestMaxBytes)
}

// ask fetches up to n messages and calls f for those that the session does not hold yet. It returns
// when the servers have ended the request, even if the process terminates: messages that are
// delivered after that are missing until their redelivery. The same is true of messages that are
// delivered to a request that the servers, because they are busy, do not end in time.
func (s *session) ask(n int, wait time.Duration, f func(*message)) error {
	wait = within(wait, s.consumer.CachedInfo().Config.MaxRequestExpires)
	n, bytes := s.request(n)
	begun, before, empty := time.Now(), s.conn.LastError(), true
	last := begun // time of the last message
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
	// The servers do not respond to a user without permission; the connection reports an error
	// instead.
	if latest := s.conn.LastError(); errors.Is(latest, nats.ErrPermissionViolation) && !errors.Is(latest, before) && strings.Contains(latest.Error(), ".MSG.NEXT.") {
		s.problem("forbidden", latest)
	} else {
		s.Monitor.Solved("forbidden")
	}
	if err := batch.Error(); err != nil || !empty || time.Since(begun) > wait/2 {
		return err
	}
	// The client library does not return the status of the servers.
	return fmt.Errorf("the next message is larger than the %d bytes that a request may ask for, by max_bytes of the consumer", bytes)
}

// within returns at most limit, if there is one.
func within[N int | time.Duration](n, limit N) N {
	if limit > 0 {
		return min(n, limit)
	}
	return n
}

// follow fetches messages and queues them. If earlier messages may be missing, it adds them to
// aside.
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

// hold records a message. fresh is false if the session already holds the message and the servers
// have redelivered it.
func (s *session) hold(msg jetstream.Msg) (m *message, fresh bool) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, false // not from a stream
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

// drop removes a message and returns its last delivery by the servers.
func (s *session) drop(m *message) jetstream.Msg {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.held, m.sequence)
	s.size -= m.weight()
	s.left.Signal()
	return m.given
}

// begin queues a message behind those of the same lane.
func (s *session) begin(m *message) { s.lanes.Add(lane(s.Deliverer, m.subject), m) }

// deliver delivers messages and acknowledges them.
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
		s.Sender.Log.Warn("not acknowledged; the message will be redelivered", "sequence", m.sequence, "error", err.Error())
	}
}

// nak returns a message to the servers, which redeliver it immediately.
func (s *session) nak(m *message) {
	if err := s.drop(m).Nak(); err != nil {
		s.Sender.Log.Warn("not returned; the message will be redelivered later", "sequence", m.sequence, "error", err.Error())
	}
}

// nakAll returns undelivered messages to the servers, the oldest first: the servers redeliver
// them in that order.
func (s *session) nakAll() {
	if s.abandoned.Load() {
		return
	}
	for _, sequence := range slices.Sorted(maps.Keys(s.held)) {
		s.nak(s.held[sequence])
	}
	// Data in transit could be lost with the connection.
	if err := s.conn.FlushTimeout(lastTimeout); err != nil {
		s.Sender.Log.Warn("flushing acknowledgements failed; delivered messages may be redelivered", "error", err.Error())
	}
}

// watch checks the consumer, which can change or be deleted while the session sends no requests.
func (s *session) watch(ctx context.Context) {
	for ctx.Err() == nil && !s.abandoned.Load() {
		delivery.Sleep(ctx, watchInterval)
		if _, err := s.info(ctx); err != nil && ctx.Err() == nil {
			s.Sender.Log.Warn("reading the state of the consumer", "error", err.Error())
		}
	}
}

// keep reports progress for the held messages, so that they are not redelivered.
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
				s.Sender.Log.Warn("cannot report progress", slog.Uint64("sequence", sequence), slog.Any("error", err))
			}
		}
		s.mu.Unlock()
	}
}

// lag returns the number of waiting messages, including the held ones.
func (s *session) lag() (int64, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), lagTimeout)
	defer cancel()
	info, err := s.info(ctx)
	if err != nil {
		return 0, false
	}
	return int64(info.NumPending) + int64(info.NumAckPending), true
}
