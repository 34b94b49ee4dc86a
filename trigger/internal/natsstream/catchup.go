package natsstream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

const (
	// regainWait is the duration of a request for messages that the servers may not redeliver yet,
	// and the interval between checks for missing messages.
	regainWait = 500 * time.Millisecond

	// overdue is the time after which a message that is not redelivered is no longer waited for,
	// counted from when its redelivery is due. The servers and this process may be busy.
	overdue = 5 * time.Second

	// longWait is the time after which missing messages are reported as a problem.
	longWait = time.Minute

	// waitingKey is the key of that problem.
	waitingKey = "waiting"
)

// behind reports whether the servers may have delivered messages that the session does not hold: to
// a process that has ended, or to a connection that was lost.
func (s *session) behind() bool { return !s.complete || s.reconnects != s.conn.Stats().Reconnects }

// catchUp fetches the messages that the servers have delivered but the session does not hold,
// before newer ones, so that no message overtakes an earlier one. The servers redeliver returned
// messages immediately, and the others when their AckWait or BackOff expires. Until then catchUp
// rarely sends a request, and for only one message, because the servers deliver a new message if
// there is no other.
func (s *session) catchUp(ctx context.Context) error {
	if len(s.aside) == 0 && s.wait(ctx) == 0 {
		return nil
	}
	defer s.Monitor.Solved(waitingKey)
	reconnects, begun := s.conn.Stats().Reconnects, time.Now()
	again := s.redeliveryDelay()
	end, next, rest, n := again+overdue, time.Duration(0), regainWait, 1
	returned := map[uint64]bool{} // messages that exceeded heldBytes and were returned
	for {
		missing, err := s.missing(ctx)
		if err != nil || ctx.Err() != nil || reconnects != s.conn.Stats().Reconnects {
			return err
		}
		waited := time.Since(begun)
		if missing <= len(returned) || waited > end {
			s.complete, s.reconnects = missing <= 0 || waited > end, reconnects
			s.beginAside()
			return nil
		}
		if waited < next {
			s.report(missing, waited, begun.Add(again))
			delivery.Sleep(ctx, regainWait)
			continue
		}
		given, fresh, err := s.fetchRedelivered(n, returned)
		waited = time.Since(begun)
		switch {
		case err != nil:
			return err
		case fresh > 0: // there may be more
			end, n = max(end, waited+overdue), max(missing-fresh, 1)
		case waited < again:
			rest *= 2
			next, n = min(waited+rest, again), 1
		case given > 0: // the returned messages come before the others
			n = missing
		default:
			next, n = waited+regainWait, missing
		}
	}
}

// redeliveryDelay returns the maximum time after which the servers redeliver a message.
func (s *session) redeliveryDelay() time.Duration {
	config := s.consumer.CachedInfo().Config
	return slices.Max(append(slices.Clone(config.BackOff), config.AckWait))
}

// fetchRedelivered fetches up to n messages and adds them to aside. given is the number of redelivered
// messages, and fresh the number of those that are not in returned. If the session holds more than
// heldBytes, fetchRedelivered returns messages to the servers and adds them to returned, the newest first,
// because older messages must be delivered before them.
func (s *session) fetchRedelivered(n int, returned map[uint64]bool) (given, fresh int, err error) {
	err = s.ask(n, regainWait, func(m *message) {
		s.aside = append(s.aside, m)
		if m.again {
			given++
		}
		if m.again && !returned[m.sequence] {
			fresh++
		}
		delete(returned, m.sequence)
	})
	s.sortAside()
	for len(s.aside) > 1 && s.holds() > heldBytes {
		last := len(s.aside) - 1
		returned[s.aside[last].sequence] = true
		s.nak(s.aside[last])
		s.aside = s.aside[:last]
	}
	return given, fresh, err
}

// holds returns the number of bytes that the session holds.
func (s *session) holds() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// beginAside queues the messages in aside, in the order of the stream.
func (s *session) beginAside() {
	s.sortAside()
	for _, m := range s.aside {
		s.begin(m)
	}
	s.aside = nil
}

func (s *session) sortAside() {
	slices.SortFunc(s.aside, func(a, b *message) int { return cmp.Compare(a.sequence, b.sequence) })
}

// missing returns the number of messages that the servers have delivered and that are neither held
// nor acknowledged. The result can be too high for a moment, because the servers process
// acknowledgements later. After a crash the servers may have forgotten the delivery of the last
// held messages; they do not count those, and neither does missing.
func (s *session) missing(ctx context.Context) (int, error) {
	info, err := s.info(ctx)
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

// report reports the missing messages as a problem if the wait is long.
func (s *session) report(missing int, waited time.Duration, again time.Time) {
	if waited < longWait {
		return
	}
	s.Monitor.Problem(waitingKey, stream.Problem{
		Reason: stream.Blocked,
		Message: fmt.Sprintf("%d messages of stream %s were delivered to a process that has ended, or lost with a connection; all events wait until the servers redeliver them, at %s at the latest (ack_wait of the consumer)",
			missing, s.stream, again.UTC().Format(time.RFC3339)),
	})
}
