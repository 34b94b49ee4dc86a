package natsstream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"goless.io/trigger/internal/send"
	"goless.io/trigger/internal/stream"
)

const (
	// regainWait is how long a request lasts for messages that the servers may not give again yet, and
	// the time between two looks at whether any are missing.
	regainWait = 500 * time.Millisecond

	// overdue is after how long beyond its time a message that is not given again is given up: the
	// servers, and this process, may be busy.
	overdue = 5 * time.Second

	// longWait is how long messages are waited for until that is a problem.
	longWait = time.Minute

	// waitingKey is the key of that problem.
	waitingKey = "waiting"
)

// behind reports whether the servers may have given what is not here: to a process that has ended,
// or to a connection that was lost.
func (s *session) behind() bool { return !s.complete || s.reconnects != s.conn.Stats().Reconnects }

// catchUp takes what the servers have given that is not here, before what is newer: so that nothing
// overtakes what comes before it. What was given back is there at once. The rest is when its time is over.
// Until then it asks seldom, for one message, because the servers give a new one where there is no other.
func (s *session) catchUp(ctx context.Context) error {
	if len(s.aside) == 0 && s.wait(ctx) == 0 {
		return nil
	}
	defer s.Monitor.Solved(waitingKey)
	reconnects, begun := s.conn.Stats().Reconnects, time.Now()
	again := s.givenAgain()
	end, next, rest, n := again+overdue, time.Duration(0), regainWait, 1
	returned := map[uint64]bool{} // what did not fit, and was given back
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
			send.Sleep(ctx, regainWait)
			continue
		}
		given, fresh, err := s.regain(n, returned)
		waited = time.Since(begun)
		switch {
		case err != nil:
			return err
		case fresh > 0: // there may be more
			end, n = max(end, waited+overdue), max(missing-fresh, 1)
		case waited < again:
			rest *= 2
			next, n = min(waited+rest, again), 1
		case given > 0: // those that were returned come before the others
			n = missing
		default:
			next, n = waited+regainWait, missing
		}
	}
}

// givenAgain is after how long the servers give a message again at the latest.
func (s *session) givenAgain() time.Duration {
	config := s.consumer.CachedInfo().Config
	return slices.Max(append(slices.Clone(config.BackOff), config.AckWait))
}

// regain asks for n messages, and puts them aside. given is how many of them the servers had given before,
// and fresh how many of those are not in returned. What is more than heldBytes is given back, and put in
// returned, the newest first: what is older goes before it.
func (s *session) regain(n int, returned map[uint64]bool) (given, fresh int, err error) {
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
		s.handBack(s.aside[last])
		s.aside = s.aside[:last]
	}
	return given, fresh, err
}

// holds is how many bytes the session holds.
func (s *session) holds() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// beginAside begins what was put aside, in the order of the stream.
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

// missing is how many messages the servers have given that are neither here nor acknowledged.
// It may be more than that for a moment, because they note later what is acknowledged. After a
// crash they may have forgotten that they gave the last ones that are here, and do not count those.
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

// report notes what is waited for, once it takes long.
func (s *session) report(missing int, waited time.Duration, again time.Time) {
	if waited < longWait {
		return
	}
	s.Monitor.Problem(waitingKey, stream.Problem{
		Reason: stream.Blocked,
		Message: fmt.Sprintf("%d messages of stream %s were given to a process that has ended, or were lost with a connection; all events wait until the servers give them again, at %s at the latest (the ack_wait of the consumer)",
			missing, s.stream, again.UTC().Format(time.RFC3339)),
	})
}
