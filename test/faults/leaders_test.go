package faults

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"goless.io/test/faults/plane"
	"goless.io/test/faults/wire"
)

// candidate is one of two operators with leader election.
type candidate struct {
	name string
	line *wire.Wire
	*plane.Process
}

// candidates replaces the operator of the other tests by two operators, until the test ends.
func candidates(t *testing.T) (both [2]*candidate) {
	t.Helper()
	world(t).operator.Kill()
	world(t).away = true
	server, token := world(t).plane.Upstream()
	for i := range both {
		name := fmt.Sprintf("candidate-%d", i)
		line, err := wire.New(name, server, token)
		if err != nil {
			t.Fatal(err)
		}
		process, err := world(t).plane.Operator(*operator, name, line.URL, "--config="+world(t).settings, "--leader-elect", "--leader-elect-namespace=goless-system")
		if err != nil {
			t.Fatal(err)
		}
		both[i] = &candidate{name, line, process}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, c := range both {
			c.Terminate(time.Minute) // so that the lease is free
			c.line.Close()
			sound(t, c.Log)
		}
		world(t).away = false
		if err := world(t).operator.Start(); err != nil {
			t.Error(err)
		}
	})
	return both
}

// wrote returns the time of the first write of an operator for a Function after a time, or the
// zero time. Renewals of the lease do not count.
func (c *candidate) wrote(since time.Time) time.Time {
	for _, r := range c.line.Requests(0) {
		if r.Write() && r.Resource != "leases" && r.Resource != "events" && r.Time.After(since) {
			return r.Time
		}
	}
	return time.Time{}
}

// leading returns the leader first: the one that writes for a Function.
func leading(t *testing.T, both [2]*candidate, over *[]*trial) (leader, other *candidate) {
	t.Helper()
	since := time.Now()
	tr := newTrial(t)
	*over = append(*over, tr)
	ready(tr)
	tr.settle()
	tr.done = time.Now()
	for i, c := range both {
		if !c.wrote(since).IsZero() {
			return c, both[1-i]
		}
	}
	t.Fatal("a Function is ready, but neither operator wrote")
	return nil, nil
}

// ends are the ways in which a leader ends, and how long it may take until the other one
// writes.
var ends = []struct {
	name   string
	within time.Duration
	do     func(*candidate)
}{
	{"SIGTERM", 5 * time.Second, func(c *candidate) { c.Signal(syscall.SIGTERM) }}, //nolint:errcheck // what follows shows
	{"kill -9", 20 * time.Second, func(c *candidate) { c.Kill() }},
}

// TestFailover stops the leader, and measures the time until the other one writes.
func TestFailover(t *testing.T) {
	enter(t)
	times := 1
	if *full {
		times = 10
	}
	for _, end := range ends {
		for n := range times {
			t.Run(fmt.Sprintf("%s %d", end.name, n+1), func(t *testing.T) {
				var over []*trial
				defer func() { quiet(t, over) }()
				leader, other := leading(t, candidates(t), &over)
				tr := over[0]
				defer func() { table.note(t, "failover "+end.name, true, tr) }()
				tr.begin()
				end.do(leader)
				tr.change(source(second))
				tr.await(other.wroteSince(tr.begun))
				tr.measured = other.wrote(tr.begun).Sub(tr.begun)
				if most := stretched(end.within); other.wrote(tr.begun).After(pauses.after(tr.begun, 2*most)) { // two control planes more run beside this one
					t.Errorf("the first write came after %s, more than twice the expected %s", tr.measured, most)
				}
				tr.awaitReady()
				tr.settle()
				tr.done = time.Now()
				tr.oracles()
				leader.ended(t)
			})
		}
	}
}

// TestTwoLeaders stops the leader for longer than its lease with SIGSTOP, lets the other one
// take over, and continues the first one.
func TestTwoLeaders(t *testing.T) {
	enter(t)
	times := 1
	if *full {
		times = 5
	}
	for n := range times {
		t.Run(fmt.Sprint(n+1), func(t *testing.T) {
			var over []*trial
			defer func() { quiet(t, over) }()
			leader, other := leading(t, candidates(t), &over)
			tr := over[0]
			defer func() { table.note(t, "two leaders", true, tr) }()
			tr.change(source(second)) // so that it is held in the middle of something
			tr.must(leader.Signal(syscall.SIGSTOP))
			held := time.Now()
			tr.change(source(third))
			tr.await(other.wroteSince(held))
			tr.awaitReady()
			tr.settle()
			want, resumed := tr.whole(), time.Now()
			tr.begin()
			tr.must(leader.Signal(syscall.SIGCONT))
			leader.ended(t)
			tr.settle()
			tr.await(func() error { return tr.whole().like(want) })
			tr.done = time.Now()
			leader.saidLittle(tr, resumed)
			tr.oracles()
		})
	}
}

// wroteSince returns nil if an operator has written for a Function after a time.
func (c *candidate) wroteSince(since time.Time) func() error {
	return func() error {
		if c.wrote(since).IsZero() {
			return fmt.Errorf("%s has written nothing", c.name)
		}
		return nil
	}
}

// ended fails the test unless the process exits, which it must after it lost its lease.
func (c *candidate) ended(t *testing.T) {
	t.Helper()
	select {
	case <-c.Ended():
	case <-time.After(2 * time.Minute):
		t.Errorf("%s lost its lease and still runs", c.name)
	}
}

// saidLittle fails the test if a former leader has changed anything for a Function after it
// continued, because its decisions are out of date.
func (c *candidate) saidLittle(tr *trial, since time.Time) {
	tr.t.Helper()
	for _, event := range world(tr.t).audit.of(tr.t, tr.ns) {
		if event.UserAgent == c.name && event.IsWrite() && event.Done() && event.RequestReceivedTimestamp.After(since) {
			tr.t.Errorf("the former leader wrote: %s", event.String())
		}
	}
}
