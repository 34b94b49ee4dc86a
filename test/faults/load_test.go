package faults

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

// A meter records when this process stopped, with the machine or alone.
type meter struct {
	mu   sync.Mutex
	last time.Time
	gaps []gap
}

type gap struct{ begin, end time.Time }

// pauses is the meter of the tests. TestMain starts it.
var pauses meter

// run ticks until the process ends.
func (m *meter) run() {
	for ; ; time.Sleep(50 * time.Millisecond) {
		m.tick()
	}
}

func (m *meter) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if !m.last.IsZero() && now.Sub(m.last) > 500*time.Millisecond {
		m.gaps = append(m.gaps, gap{m.last, now})
	}
	m.last = now
}

// after returns the time at which the process has run for a duration since a time.
func (m *meter) after(since time.Time, d time.Duration) time.Time {
	m.tick()
	m.mu.Lock()
	defer m.mu.Unlock()
	end := since.Add(d)
	for _, g := range m.gaps {
		if g.end.After(since) && g.begin.Before(end) {
			end = end.Add(min(g.end.Sub(g.begin), g.end.Sub(since)))
		}
	}
	return end
}

// calm is the time without a write after which no more writes are expected.
const calm = time.Second

// stretched extends a duration on a busy machine, where programs wait for processors. A load of
// up to four per processor does not extend it.
func stretched(d time.Duration) time.Duration {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d // the kernel does not report the load
	}
	var load float64
	if _, err := fmt.Sscan(string(text), &load); err != nil {
		return d
	}
	return time.Duration(float64(d) * max(1, load/float64(4*runtime.NumCPU())))
}
