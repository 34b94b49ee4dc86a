package runtime

import (
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// pace makes the garbage collector run more seldom while a small heap keeps it
// busy. Go lets a heap grow to 4 MiB at least; under load a function fills that
// many times in a second, and each time the collector marks the same few metrics
// and buffers: a seventh of the processor, as measured with a handler that does
// nothing. With four times that heap it is a thirtieth.
//
// A large heap is left alone, and one that is idle again gives its memory back.
type pace struct {
	mu      sync.Mutex
	last    time.Time
	relaxed bool
}

const (
	// busyCycle is how soon one cycle follows another when the pace is relaxed,
	// idleCycle is for how long there is none when it is not any longer.
	busyCycle = 100 * time.Millisecond
	idleCycle = 10 * time.Second
	// smallHeap is the most live memory of a heap that may grow to four times
	// the usual.
	smallHeap      = 4 << 20
	usualPercent   = 100
	relaxedPercent = 400
)

// paceGC keeps the pace as long as the process lives, unless the user has said
// what is wanted, by GOGC or by [debug.SetGCPercent].
func paceGC(getenv func(string) string) {
	if getenv("GOGC") == "" {
		(&pace{last: time.Now()}).next()
	}
}

// next waits for the end of a cycle: for garbage to be collected.
func (p *pace) next() {
	garbage := new([64]byte)
	goruntime.AddCleanup(garbage, (*pace).cycle, p)
}

func (p *pace) cycle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	busy := now.Sub(p.last) < busyCycle
	p.last = now
	switch small := liveHeap() <= smallHeap; {
	case p.relaxed && !small:
		p.usual()
	case !p.relaxed && small && busy:
		if !swapPercent(usualPercent, relaxedPercent) {
			return // the user's code has set another
		}
		p.relaxed = true
		time.AfterFunc(idleCycle, p.rest)
	}
	p.next()
}

// rest ends the relaxed pace when there was no cycle for a while.
func (p *pace) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch quiet := time.Since(p.last); {
	case !p.relaxed:
	case quiet < idleCycle:
		time.AfterFunc(idleCycle-quiet, p.rest)
	default:
		p.usual()
		debug.FreeOSMemory()
	}
}

func (p *pace) usual() {
	p.relaxed = false
	swapPercent(relaxedPercent, usualPercent)
}

// swapPercent changes GOGC if it is old.
func swapPercent(old, to int) bool {
	found := debug.SetGCPercent(to)
	if found != old {
		debug.SetGCPercent(found)
	}
	return found == old
}

// liveHeap returns how many bytes the last cycle found alive.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
